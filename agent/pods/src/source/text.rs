//! The pods of one text: of a manifest file, or of what a web server has. Pure.

use std::fmt::Display;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::uid;
use nodewarden_manifest::{Pod, manifest};

/// Where a text comes from.
#[derive(Debug)]
pub struct Place<'a> {
    /// Goes into the uid of pods that have none (see [`uid::derive`]).
    pub seed: String,
    /// The node's name, if those of the pods end with it (kubelet `generatePodName`).
    pub suffix: Option<&'a str>,
}

/// A text as last read.
#[derive(Debug, Default)]
pub struct PodText {
    /// Of the text; `None` for one that has to be read again. The text itself is not kept: it may be long.
    digest: Option<[u8; 32]>,
    pub pods: Vec<Arc<Pod>>,
    pub problems: Vec<String>,
}

impl PodText {
    /// The text's pods. If a document is bad, or the text has the problem `empty`, also the pods that were
    /// known `before` and are not in the others: the bad one may be about them. Problems begin with `name`.
    pub fn parse(name: impl Display, place: &Place<'_>, text: &str, empty: &str, before: Self) -> Self {
        let mut pods: Vec<Arc<Pod>> = Vec::new();
        let mut problems = Vec::new();
        if is_blank(text) {
            problems.push(empty.to_owned());
        }
        for document in manifest::parse(text) {
            match document {
                Ok(mut pod) => {
                    if pod.uid.is_empty() {
                        pod.uid = uid::derive(&pod, &place.seed);
                    }
                    if let Some(node) = place.suffix {
                        pod.name = format!("{}-{}", pod.name, node.to_lowercase());
                    }
                    pods.push(Arc::new(pod));
                }
                Err(error) => problems.push(format!("{name}: {error}")),
            }
        }
        if !problems.is_empty() {
            let is_listed = |old: &Arc<Pod>| {
                pods.iter().any(|p| p.uid == old.uid || (p.namespace == old.namespace && p.name == old.name))
            };
            let kept: Vec<_> = before.pods.into_iter().filter(|old| !is_listed(old)).collect();
            pods.extend(kept);
        }
        Self { digest: Some(digest(text)), pods, problems }
    }

    /// Whether this is the same text again and all of it could be read.
    pub fn is(&self, text: &str) -> bool {
        self.problems.is_empty() && self.digest == Some(digest(text))
    }

    /// The text could not be read this time: the pods stay.
    #[must_use]
    pub fn unreadable(self, problem: String) -> Self {
        Self { digest: None, problems: vec![problem], ..self }
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// Nothing but white space, comments and ends of documents: most likely a file that is being written.
fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| matches!(line, "" | "---" | "...") || line.starts_with('#'))
}
