//! The files of a manifest directory (`staticPodPath`) as pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Desired, SourceError, Sourced, uid};
use crate::pod::{Pod, manifest};

/// Longest manifest in bytes: the kubelet's `maxConfigLength`.
const LONGEST: u64 = 10 << 20;

/// The directory and what was last read there.
#[derive(Debug)]
pub struct Manifests {
    dir: PathBuf,
    /// Goes into the uid of pods that have none, as with the kubelet.
    node: String,
    files: BTreeMap<PathBuf, Known>,
}

/// One file as last read.
#[derive(Debug, Default)]
struct Known {
    text: String,
    pods: Vec<Arc<Pod>>,
    problems: Vec<String>,
}

impl Manifests {
    pub fn new(dir: &Path, node: &str) -> Self {
        Self { dir: dir.to_owned(), node: node.to_owned(), files: BTreeMap::new() }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What one file alone says.
    pub fn file(path: &Path, node: &str) -> Desired {
        let mut one = Self::new(path.parent().unwrap_or(Path::new("/")), node);
        let known = match read(path) {
            Ok(text) => parse(path, text, node, Known::default()),
            Err(error) => Known { problems: vec![error.to_string()], ..Known::default() },
        };
        one.files.insert(path.to_owned(), known);
        one.desired()
    }

    /// Reads every file anew. A file that cannot be read or has a bad document keeps the pods that were known from it
    /// and are not told anew; a directory that cannot be listed keeps all.
    pub fn scan(&mut self) -> Desired {
        let names = match list(&self.dir) {
            Ok(names) => names,
            Err(error) => {
                let mut desired = self.desired();
                desired.problems.insert(0, error.to_string());
                desired.blind = true;
                return desired;
            }
        };
        self.files.retain(|path, _| names.contains(path));
        for path in names {
            let before = self.files.remove(&path).unwrap_or_default();
            let now = match read(&path) {
                Ok(text) if text == before.text && before.problems.is_empty() => before,
                Ok(text) => parse(&path, text, &self.node, before),
                Err(error) => Known { text: String::new(), problems: vec![error.to_string()], ..before },
            };
            self.files.insert(path, now);
        }
        self.desired()
    }

    /// What the files say together. Of two pods with one uid or one name the first file's stands.
    fn desired(&self) -> Desired {
        let mut desired = Desired::default();
        let (mut uids, mut names) = (BTreeMap::new(), BTreeMap::new());
        for (path, file) in &self.files {
            let origin = path.display().to_string();
            desired.problems.extend(file.problems.iter().cloned());
            if !file.problems.is_empty() {
                desired.unreadable.insert(origin.clone());
            }
            for pod in &file.pods {
                let name = (pod.namespace.clone(), pod.name.clone());
                let taken = uids.get(&pod.uid).or_else(|| names.get(&name));
                if let Some(first) = taken {
                    desired.problems.push(format!(
                        "{origin}: pod {}/{} (uid {}) is in {first} already and is left out here",
                        pod.namespace, pod.name, pod.uid
                    ));
                    continue;
                }
                uids.insert(pod.uid.clone(), origin.clone());
                names.insert(name, origin.clone());
                desired.pods.push(Sourced { pod: pod.clone(), origin: origin.clone() });
            }
        }
        desired
    }
}

/// The regular files of `dir`, sorted; names with a leading dot are not manifests (the kubelet's rule).
fn list(dir: &Path) -> Result<BTreeSet<PathBuf>, SourceError> {
    let fail = |source| SourceError::File { call: "list", path: dir.to_owned(), source };
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // Follows links, as the kubelet does. What vanished meanwhile is not there.
        let regular = fs::metadata(entry.path()).is_ok_and(|m| m.is_file());
        if !hidden && regular {
            files.insert(entry.path());
        }
    }
    Ok(files)
}

fn read(path: &Path) -> Result<String, SourceError> {
    let fail = |call| move |source: io::Error| SourceError::File { call, path: path.to_owned(), source };
    let file = File::open(path).map_err(fail("open"))?;
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(fail("read"))?;
    let length = bytes.len() as u64;
    if length > LONGEST {
        return Err(SourceError::TooLong { path: path.to_owned(), bytes: length, most: LONGEST });
    }
    String::from_utf8(bytes)
        .map_err(|e| SourceError::NotText { path: path.to_owned(), at: e.utf8_error().valid_up_to() })
}

/// The file's pods, and those known before that a bad document may have been about.
fn parse(path: &Path, text: String, node: &str, before: Known) -> Known {
    let mut pods: Vec<Arc<Pod>> = Vec::new();
    let mut problems = Vec::new();
    for document in manifest::parse(&text) {
        match document {
            Ok(mut pod) => {
                if pod.uid.is_empty() {
                    pod.uid = uid::derive(&pod, node, path);
                }
                pods.push(Arc::new(pod));
            }
            Err(error) => problems.push(format!("{}: {error}", path.display())),
        }
    }
    if !problems.is_empty() {
        let told = |old: &Arc<Pod>| {
            pods.iter().any(|p| p.uid == old.uid || (p.namespace == old.namespace && p.name == old.name))
        };
        let kept: Vec<_> = before.pods.into_iter().filter(|old| !told(old)).collect();
        pods.extend(kept);
    }
    Known { text, pods, problems }
}

#[cfg(test)]
#[path = "manifests_tests.rs"]
mod tests;
