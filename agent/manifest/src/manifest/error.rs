//! Errors of documents in a manifest file.

use std::fmt::Write as _;

use super::Problem;
use super::decode::Mismatch;

/// A document that is not a valid pod, and why. The caller adds the name of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("document {document}, line {line}: {fault}")]
pub struct ManifestError {
    /// Number of the document from 1, not counting empty ones.
    pub document: usize,
    /// Line of the file, from 1: that of the first fault if known, else the first line of the document.
    pub line: usize,
    pub fault: ManifestFault,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestFault {
    /// Neither YAML nor JSON.
    #[error("{reason}")]
    Syntax { reason: String },
    /// A field has the wrong type.
    #[error("{field}: {reason}")]
    Malformed { field: String, reason: String },
    #[error("apiVersion {api_version:?} and kind {kind:?} must be \"v1\" and \"Pod\", or a list of these")]
    Kind { api_version: String, kind: String },
    /// The problems, each with its line of the file.
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

/// Joins the problems in order of lines; a line number is written if it differs from that of the previous problem.
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
