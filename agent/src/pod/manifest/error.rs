//! Why a document of a manifest is no pod.

use super::Problem;
use super::decode::Mismatch;

/// A document of a file that is no pod, and why. The file is the reader's to name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("document {document}, line {line}: {fault}")]
pub struct ManifestError {
    /// Counted from 1; empty documents do not count.
    pub document: usize,
    /// In the file, from 1: of the fault where the parser tells, else of the document's beginning.
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
    #[error("{}", joined(problems))]
    Invalid { problems: Vec<Problem> },
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

fn joined(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
