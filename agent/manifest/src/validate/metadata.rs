//! Labels and annotations (`ValidateLabels`, `ValidateAnnotations`).

use super::report::Report;
use crate::Pod;
use crate::name_forms::{is_label_value, is_qualified_name};

const KEY: &str = "must be name or domain/name, the name at most 63 letters, digits, '-', '_' and '.', a letter or digit at each end";
/// Keys and values of all annotations together, in bytes (`TotalAnnotationSizeLimitB`).
const LONGEST_ANNOTATIONS: usize = 256 << 10;

pub(super) fn problems(pod: &Pod, report: &mut Report) {
    for (key, value) in &pod.labels {
        if !is_qualified_name(key) {
            report.add("metadata.labels", key, KEY);
        }
        if !is_label_value(value) {
            let expected = "must be empty or at most 63 letters, digits, '-', '_' and '.', a letter or digit at each end";
            report.add(format!("metadata.labels[{key}]"), value, expected);
        }
    }
    for key in pod.annotations.keys().filter(|key| !is_qualified_name(&key.to_lowercase())) {
        report.add("metadata.annotations", key, KEY);
    }
    let size: usize = pod.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > LONGEST_ANNOTATIONS {
        let expected = format!("must be at most {LONGEST_ANNOTATIONS} bytes together");
        report.add("metadata.annotations", size.to_string(), expected);
    }
}
