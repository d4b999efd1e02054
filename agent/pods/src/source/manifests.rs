//! The files of a manifest directory (`staticPodPath`) as pods.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::choice::{Candidate, choose};
use super::{Desired, SourceError, Sourced, Standing, uid};
use nodewarden_manifest::{Pod, manifest};

/// Longest manifest in bytes: the kubelet's `maxConfigLength`.
const LONGEST: u64 = 10 << 20;

/// The directory and what was last read there.
#[derive(Debug)]
pub struct Manifests {
    dir: PathBuf,
    /// Goes into the uid of pods that have none, as with the kubelet.
    node: String,
    files: BTreeMap<PathBuf, Known>,
    /// Why the directory could not be listed the last time.
    blind: Option<String>,
    standing: Standing,
}

/// A file as it was found, to be taken or not.
#[derive(Debug)]
pub struct Look {
    path: PathBuf,
    /// `None` for what is no file or gone.
    text: Result<Option<String>, SourceError>,
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
        Self {
            dir: dir.to_owned(),
            node: node.to_owned(),
            files: BTreeMap::new(),
            blind: None,
            standing: Standing::default(),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file whose pod of a name runs already: it goes before others that have a pod of that name too.
    pub fn stand(&mut self, standing: Standing) {
        self.standing = standing;
    }

    /// What a directory says now, or one file alone.
    pub fn at(path: &Path, node: &str) -> Desired {
        if path.is_dir() {
            let mut all = Self::new(path, node);
            all.scan();
            return all.desired();
        }
        let mut one = Self::new(path.parent().unwrap_or(Path::new("/")), node);
        let read = read(path).and_then(|text| text.ok_or(SourceError::NoFile { path: path.to_owned() }));
        let known = match read {
            Ok(text) => parse(path, text, node, Known::default()),
            Err(error) => Known { problems: vec![error.to_string()], ..Known::default() },
        };
        one.files.insert(path.to_owned(), known);
        one.desired()
    }

    /// Reads every file anew. A file that cannot be read or has a bad document keeps the pods that were known from it
    /// and are not told anew; a directory that cannot be listed keeps all.
    pub fn scan(&mut self) {
        for name in self.list() {
            let look = self.look(&name);
            self.take(look);
        }
    }

    /// The names in the directory that may be manifests. What was known of others is dropped; of none, if the
    /// directory cannot be listed.
    pub fn list(&mut self) -> BTreeSet<OsString> {
        match list(&self.dir) {
            Ok(names) => {
                self.blind = None;
                self.files.retain(|path, _| path.file_name().is_some_and(|name| names.contains(name)));
                names
            }
            Err(error) => {
                self.blind = Some(error.to_string());
                BTreeSet::new()
            }
        }
    }

    /// Reads one file of the directory, which may be gone.
    pub fn look(&self, name: &OsStr) -> Look {
        let path = self.dir.join(name);
        let text = if is_manifest(name) { read(&path) } else { Ok(None) };
        Look { path, text }
    }

    /// Takes what was read for what there is.
    pub fn take(&mut self, Look { path, text }: Look) {
        let before = self.files.remove(&path).unwrap_or_default();
        let now = match text {
            Ok(None) => return,
            Ok(Some(text)) if text == before.text && before.problems.is_empty() && !text.is_empty() => before,
            Ok(Some(text)) => parse(&path, text, &self.node, before),
            Err(error) => Known { text: String::new(), problems: vec![error.to_string()], ..before },
        };
        self.files.insert(path, now);
    }

    /// What the files say together. Of two pods with one uid or one name that one stands which stood before, else the
    /// first file's.
    pub fn desired(&mut self) -> Desired {
        let mut desired = Desired { blind: self.blind.is_some(), ..Desired::default() };
        desired.problems.extend(self.blind.clone());
        let mut candidates = Vec::new();
        for (path, file) in &self.files {
            let origin: Arc<str> = path.to_string_lossy().into();
            desired.problems.extend(file.problems.iter().cloned());
            if !file.problems.is_empty() {
                desired.unreadable.insert(origin.to_string());
            }
            candidates.extend(file.pods.iter().map(|pod| Candidate { pod, origin: origin.clone() }));
        }
        let choice = choose(candidates, &self.standing);
        desired.problems.extend(choice.problems);
        self.standing = choice.standing;
        desired.pods = choice
            .pods
            .into_iter()
            .map(|c| Sourced { pod: c.pod.clone(), origin: c.origin.as_ref().to_owned() })
            .collect();
        desired
    }
}

/// Names with a leading dot are not manifests (the kubelet's rule, and its only one).
pub fn is_manifest(name: &OsStr) -> bool {
    !name.as_encoded_bytes().starts_with(b".")
}

fn list(dir: &Path) -> Result<BTreeSet<OsString>, SourceError> {
    let fail = |source| SourceError::File { call: "list", path: dir.to_owned(), source };
    let names = fs::read_dir(dir).map_err(fail)?.map(|entry| entry.map(|e| e.file_name()));
    names
        .filter(|name| name.as_ref().map_or(true, |name| is_manifest(name)))
        .collect::<Result<_, _>>()
        .map_err(fail)
}

/// The text of a file, following links as the kubelet does. `None` for what is no regular file, and for what is gone;
/// a link to nowhere is an error.
fn read(path: &Path) -> Result<Option<String>, SourceError> {
    let fail = |call| move |source: io::Error| SourceError::File { call, path: path.to_owned(), source };
    // Opening a FIFO would wait for its writer.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            return Ok(None);
        }
        // A socket.
        Err(e) if e.raw_os_error() == Some(libc::ENXIO) => return Ok(None),
        Err(source) => return Err(fail("open")(source)),
    };
    let metadata = file.metadata().map_err(fail("stat"))?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(LONGEST)).unwrap_or(0) + 1);
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(fail("read"))?;
    let length = bytes.len() as u64;
    if length > LONGEST {
        return Err(SourceError::TooLong { path: path.to_owned(), bytes: length, most: LONGEST });
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|e| SourceError::NotText { path: path.to_owned(), at: e.utf8_error().valid_up_to() })
}

/// The file's pods, and those known before that a bad document may have been about.
fn parse(path: &Path, text: String, node: &str, before: Known) -> Known {
    let mut pods: Vec<Arc<Pod>> = Vec::new();
    let mut problems = Vec::new();
    if says_nothing(&text) {
        problems.push(SourceError::Empty { path: path.to_owned() }.to_string());
    }
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

/// Nothing but white space, comments and ends of documents: most likely a file that is being written.
fn says_nothing(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| matches!(line, "" | "---" | "...") || line.starts_with('#'))
}

#[cfg(test)]
#[path = "manifests_tests.rs"]
mod tests;
