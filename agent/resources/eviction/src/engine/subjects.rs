//! Which pods there are to choose from.

use crate::gather::Subject;

/// Who knows the pods.
pub trait Subjects: Send + Sync + 'static {
    /// Every pod that may have processes, files or volumes.
    fn pods(&self) -> Vec<Subject>;

    /// Pods by uid that are on their way out because they were evicted.
    fn leaving(&self) -> Vec<String>;

    /// Whether those of an earlier agent are all among them. Until then nobody is chosen: it would be whoever happens to be
    /// known first.
    fn are_known(&self) -> bool {
        true
    }
}
