//! Errors of documents in a manifest file.

use std::fmt::Write as _;

use super::Problem;
use super::decode::Mismatch;

/// A document that is not a valid pod, or an item of a list that is not. The caller adds the name of the
/// file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("document {document}, line {line}: {fault}")]
pub struct ManifestError {
    /// Number of the document from 1, not counting empty ones.
    pub document: usize,
    /// Line of the file, from 1: that of the first fault if known, else the first line of the document.
    pub line: usize,
    /// What is wrong.
    pub fault: ManifestFault,
}

/// Why a document is not a valid pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestFault {
    /// When the text is neither YAML nor JSON.
    #[error("{reason}")]
    Syntax {
        /// The parser's message.
        reason: String,
    },
    /// When a field has the wrong type.
    #[error("{field}: {reason}")]
    Malformed {
        /// Path of the field.
        field: String,
        /// The parser's message.
        reason: String,
    },
    /// When aliases make the file too large.
    #[error("aliases (*name) expand the file to more than {limit} bytes")]
    TooLarge {
        /// What they may expand to.
        limit: usize,
    },
    /// When the object is of another kind than `v1/Pod`, `v1/PodList` or `v1/List`.
    #[error("apiVersion {api_version:?} and kind {kind:?} must be \"v1\" and \"Pod\", or a list of these")]
    Kind {
        /// The object's `apiVersion`; empty if it has none.
        api_version: String,
        /// The object's `kind`; empty if it has none.
        kind: String,
    },
    /// When the pod breaks rules of the API server.
    #[error("{}", joined(problems))]
    Invalid {
        /// The problems, each with its line of the file.
        problems: Vec<(usize, Problem)>,
    },
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

/// Joins the problems in order of lines; a line number is written if it differs from that of the previous
/// problem.
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
