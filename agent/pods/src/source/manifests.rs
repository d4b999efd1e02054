//! The files of a manifest directory (`staticPodPath`) as pods.

mod changes;
mod directory;
mod error;
mod file;
mod relist;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use nodewarden_model::Origin;

use super::merge::choose;
use super::origin::LastTaken;
use super::text::{Place, PodText};
use super::{Desired, PodOrigins, SourceProblem, SourcedPod, Unread};
use file::{Content, Stamp, read};

pub use directory::ManifestSource;
pub use error::ManifestError;

/// The directory and what was last read in it.
#[derive(Debug)]
pub struct Manifests {
    dir: PathBuf,
    /// Goes into the uid of pods that have none, as with the kubelet.
    node: String,
    /// The node's name ends those of the pods.
    is_named_by_node: bool,
    /// By name: paths are compared part by part, which takes much longer.
    files: BTreeMap<OsString, Box<KnownFile>>,
    /// Why the directory could not be listed the last time.
    not_listed: Option<String>,
    /// The pods that were taken the last time, with their files.
    last: LastTaken,
    /// Whether something was read since [`Manifests::desired`] that may change it.
    is_changed: bool,
    /// Every file was listed as the only name of what was read, and nothing was read since.
    is_reported: bool,
}

/// A file as it was last read.
#[derive(Debug, Default)]
struct KnownFile {
    text: PodText,
    /// `None`: it has to be read to find out whether it is another one.
    stamp: Option<Stamp>,
}

/// One file as it was read, before it is taken over.
#[derive(Debug)]
pub struct ReadFile {
    name: OsString,
    content: Result<Content, ManifestError>,
}

impl Manifests {
    /// An empty list of manifests of the directory `dir`; nothing is read yet. `node` is the node's name.
    pub fn new(dir: &Path, node: &str) -> Self {
        Self {
            dir: dir.to_owned(),
            node: node.to_owned(),
            is_named_by_node: false,
            files: BTreeMap::new(),
            not_listed: None,
            last: LastTaken::default(),
            is_changed: true,
            is_reported: false,
        }
    }

    /// Whether each change of what is known is a change in the directory itself: no file is a link or has
    /// another name, as far as a list of the directory and what was read before it show.
    pub fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// The pods' names end with the node's (kubelet `generatePodName`): those of all nodes in a cluster are
    /// in one namespace.
    pub fn named_by_node(&mut self) {
        self.is_named_by_node = true;
    }

    /// The manifest directory (`staticPodPath`).
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Sets the origins of the pods that run: such a file's pod wins over others of the same name.
    pub fn set_running(&mut self, running: PodOrigins) {
        self.last = LastTaken::Running(running);
        self.is_changed = true;
    }

    /// The pods of a directory, or of one file alone, as they are now.
    pub fn at(path: &Path, node: &str) -> Desired {
        if path.is_dir() {
            let mut all = Self::new(path, node);
            all.scan();
            return all.desired();
        }
        let mut one = Self::new(path.parent().unwrap_or(Path::new("/")), node);
        let text = match read(path, None) {
            Ok(Content::Text(text, _)) => parse(path, &text, node, false, PodText::default()),
            Ok(Content::None | Content::AsBefore) => {
                PodText::default().unreadable(ManifestError::NoFile { path: path.to_owned() }.to_string())
            }
            Err(error) => PodText::default().unreadable(error.to_string()),
        };
        let name = path.file_name().unwrap_or_default().to_owned();
        one.files.insert(name, Box::new(KnownFile { text, stamp: None }));
        one.desired()
    }

    /// Reads every file again. A file that cannot be read or has a bad document keeps the pods that were
    /// known from it; a directory that cannot be listed keeps all.
    pub fn scan(&mut self) {
        for name in self.list() {
            let look = self.look(&name);
            self.take(look);
        }
    }

    /// The names in the directory that may be manifests. Files that are gone are forgotten, unless the
    /// directory cannot be listed.
    pub fn list(&mut self) -> BTreeSet<OsString> {
        let known = self.files.len();
        let (names, not_listed) = match list(&self.dir) {
            Ok(listed) => {
                self.is_reported = listed.iter().all(|(name, listed)| self.is_as_listed(name, listed));
                let names: BTreeSet<OsString> = listed.into_iter().map(|(name, _)| name).collect();
                self.files.retain(|name, _| names.contains(name));
                (names, None)
            }
            Err(error) => {
                self.is_reported = false;
                (BTreeSet::new(), Some(error.to_string()))
            }
        };
        self.is_changed |= self.files.len() != known || self.not_listed != not_listed;
        self.not_listed = not_listed;
        names
    }

    /// Whether a change of this file is one in the directory. What is neither a file nor a link is no
    /// manifest.
    fn is_as_listed(&self, name: &OsStr, listed: &Entry) -> bool {
        let stamp = self.files.get(name).and_then(|known| known.stamp);
        match listed.is_file_or_link {
            true => stamp.is_some_and(|stamp| stamp.is_only_name(listed.inode)),
            false => true,
        }
    }

    /// Reads one file of the directory, which may be gone.
    pub fn look(&self, name: &OsStr) -> ReadFile {
        self.look_unless(name, None)
    }

    /// The same, but does not read a file whose size and times are those of the last time.
    pub fn look_if_changed(&self, name: &OsStr) -> ReadFile {
        let known = self.files.get(name);
        self.look_unless(
            name,
            known.filter(|known| known.text.problems.is_empty()).and_then(|known| known.stamp),
        )
    }

    fn look_unless(&self, name: &OsStr, known: Option<Stamp>) -> ReadFile {
        let content = if is_manifest(name) { read(&self.dir.join(name), known) } else { Ok(Content::None) };
        ReadFile { name: name.to_owned(), content }
    }

    /// Takes over what was read.
    pub fn take(&mut self, ReadFile { name, content }: ReadFile) {
        if matches!(content, Ok(Content::AsBefore)) {
            return;
        }
        let known = self.files.remove(&name);
        let is_news = known.is_some() || !matches!(content, Ok(Content::None));
        self.is_changed |= is_news;
        self.is_reported &= !is_news;
        let before = known.unwrap_or_default().text;
        let (text, stamp) = match content {
            Ok(Content::None | Content::AsBefore) => return,
            Ok(Content::Text(text, stamp)) if before.is(&text) => (before, stamp),
            Ok(Content::Text(text, stamp)) => {
                let path = self.dir.join(&name);
                (parse(&path, &text, &self.node, self.is_named_by_node, before), stamp)
            }
            Err(error) => (before.unreadable(error.to_string()), None),
        };
        self.files.insert(name, Box::new(KnownFile { text, stamp }));
    }

    /// As [`Manifests::desired`]; `None` if nothing was read since then that may change it.
    pub fn changed(&mut self) -> Option<Desired> {
        self.is_changed.then(|| self.desired())
    }

    /// What the files want together. On a uid or name conflict the pod that already runs wins, else the first
    /// file.
    pub fn desired(&mut self) -> Desired {
        self.is_changed = false;
        let mut desired = Desired::default();
        if let Some(problem) = &self.not_listed {
            desired.problems.push(SourceProblem { origin: None, message: problem.clone() });
            desired.unread = Unread::of_source(Origin::MANIFESTS);
        }
        let mut candidates = Vec::new();
        for (name, known) in &self.files {
            let file = &known.text;
            let origin = Origin::Manifest(self.dir.join(name).to_string_lossy().into());
            let problem =
                |message: &String| SourceProblem { origin: Some(origin.clone()), message: message.clone() };
            desired.problems.extend(file.problems.iter().map(problem));
            if !file.problems.is_empty() {
                desired.unread.extend(Unread::of_origin(origin.clone()));
            }
            candidates.extend(file.pods.iter().map(|pod| SourcedPod::new(pod.clone(), origin.clone())));
        }
        let choice = choose(candidates, &self.last);
        desired.problems.extend(choice.problems);
        desired.pods = choice.pods.into();
        self.last = LastTaken::Pods(desired.pods.clone());
        desired
    }
}

/// Names with a leading dot are not manifests (the kubelet's rule, and its only one).
pub fn is_manifest(name: &OsStr) -> bool {
    !name.as_encoded_bytes().starts_with(b".")
}

/// What the directory itself has of a name.
#[derive(Debug)]
struct Entry {
    inode: u64,
    is_file_or_link: bool,
}

fn list(dir: &Path) -> Result<Vec<(OsString, Entry)>, ManifestError> {
    let fail = |source| ManifestError::File { call: "list", path: dir.to_owned(), source };
    let mut listed = Vec::new();
    for entry in fs::read_dir(dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        if is_manifest(&name) {
            // The type of a file that is gone since is not known.
            let is_file_or_link = entry.file_type().map_or(true, |kind| kind.is_file() || kind.is_symlink());
            listed.push((name, Entry { inode: entry.ino(), is_file_or_link }));
        }
    }
    Ok(listed)
}

/// The file's pods; `before` is what was known of it.
fn parse(path: &Path, text: &str, node: &str, is_named_by_node: bool, before: PodText) -> PodText {
    let seed = format!("host:{node}file:{}", path.display());
    let place = Place { seed, suffix: is_named_by_node.then_some(node) };
    let empty = ManifestError::Empty { path: path.to_owned() }.to_string();
    PodText::parse(path.display(), &place, text, &empty, before)
}

#[cfg(test)]
mod tests;
