//! The pods that eviction may choose from.

use tokio::sync::watch;

use crate::gather::Subject;

/// Lists the pods of the node.
pub trait Subjects: Send + Sync + 'static {
    /// Every pod that may have processes, files or volumes.
    fn pods(&self) -> Vec<Subject>;

    /// Uids of the evicted pods that have not ended yet.
    fn leaving(&self) -> Vec<String>;

    /// Whether the pods that an earlier agent started are all listed. Until then no victim is chosen, since
    /// it would be any pod that happens to be listed first.
    fn are_known(&self) -> bool {
        true
    }

    /// Reports that any pod was added, changed or removed. `None` where that is not known.
    fn any_change(&self) -> Option<watch::Receiver<()>> {
        None
    }
}

/// Which pods must not be evicted beside a kubelet, which runs them.
pub trait KubeletPods: Send + Sync + 'static {
    /// Why the pod of this uid must not be chosen for a hard or a soft threshold; `None` if it may be.
    fn spares(&self, uid: &str, hard: bool) -> Option<&'static str>;

    /// Whether the eviction of this pod, which a soft threshold asked for, was refused.
    fn was_refused(&self, uid: &str) -> bool;
}
