//! Why a document of a manifest is no pod.

use std::fmt::Write as _;

use super::Problem;
use super::decode::Mismatch;

/// A document of a file that is no pod, and why. The file is the reader's to name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("document {document}, line {line}: {fault}")]
pub struct ManifestError {
    /// Counted from 1; empty documents do not count.
    pub document: usize,
    /// In the file, from 1: of the fault (of the first, if there are more) where it can be told, else of the document's
    /// beginning.
    pub line: usize,
    pub fault: ManifestFault,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestFault {
    /// No YAML or JSON at all.
    #[error("{reason}")]
    Syntax { reason: String },
    /// Something else than Kubernetes has there.
    #[error("{field}: {reason}")]
    Malformed { field: String, reason: String },
    #[error("apiVersion {api_version:?} and kind {kind:?} must be \"v1\" and \"Pod\", or a list of these")]
    Kind { api_version: String, kind: String },
    /// Each with its line of the file.
    #[error("{}", joined(problems))]
    Invalid { problems: Vec<(usize, Problem)> },
}

impl From<Mismatch> for ManifestFault {
    fn from(mismatch: Mismatch) -> Self {
        let Mismatch { field, reason, .. } = mismatch;
        match field {
            Some(field) => Self::Malformed { field, reason },
            None => Self::Syntax { reason },
        }
    }
}

/// By line; a line is told where it is another one than that of the problem before.
fn joined(problems: &[(usize, Problem)]) -> String {
    let mut sorted: Vec<_> = problems.iter().collect();
    sorted.sort_by_key(|(line, _)| *line);
    let mut text = String::new();
    for (index, (line, problem)) in sorted.iter().enumerate() {
        let _ = match index.checked_sub(1).map(|before| sorted[before].0) {
            None => write!(text, "{problem}"),
            Some(before) if before == *line => write!(text, "; {problem}"),
            Some(_) => write!(text, "; line {line}: {problem}"),
        };
    }
    text
}
