//! Files as they will be installed, in memory.

use std::collections::BTreeMap;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A folder.
    Folder,
    /// A regular file.
    File(Vec<u8>),
    /// A symbolic link to this target.
    Link(String),
}

/// A path's permissions and content. Everything belongs to root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The permission bits.
    pub mode: u32,
    /// What is there.
    pub content: Content,
    /// Whether it is configuration: what the user changed is kept.
    pub configuration: bool,
}

/// Paths without a leading slash, in order, so that a folder comes before what is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree(BTreeMap<String, Entry>);

impl Tree {
    /// Adds a file that everyone may read.
    pub fn file(&mut self, path: &str, data: impl Into<Vec<u8>>) {
        self.add(path, 0o644, Content::File(data.into()), false);
    }

    /// Adds a program.
    pub fn program(&mut self, path: &str, data: impl Into<Vec<u8>>) {
        self.add(path, 0o755, Content::File(data.into()), false);
    }

    /// Adds a file that the user may change.
    pub fn configuration(&mut self, path: &str, data: impl Into<Vec<u8>>) {
        self.add(path, 0o644, Content::File(data.into()), true);
    }

    /// Adds a folder.
    pub fn folder(&mut self, path: &str) {
        self.add(path, 0o755, Content::Folder, false);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.add(path, 0o777, Content::Link(target.to_owned()), false);
    }

    /// Adds `content` with the folders above it that are not there yet.
    pub fn add(&mut self, path: &str, mode: u32, content: Content, configuration: bool) {
        for (at, _) in path.match_indices('/') {
            let folder = Entry { mode: 0o755, content: Content::Folder, configuration: false };
            self.0.entry(path[..at].to_owned()).or_insert(folder);
        }
        self.0.insert(path.to_owned(), Entry { mode, content, configuration });
    }

    /// Every path with what is there.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// The content of the file at `path`.
    pub fn data(&self, path: &str) -> Option<&[u8]> {
        match &self.0.get(path)?.content {
            Content::File(data) => Some(data),
            _ => None,
        }
    }

    /// Every regular file.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries().filter_map(|(path, entry)| match &entry.content {
            Content::File(data) => Some((path, data.as_slice())),
            Content::Folder | Content::Link(_) => None,
        })
    }

    /// The bytes of all files together.
    pub fn size(&self) -> u64 {
        let sizes = self.0.values().map(|entry| match &entry.content {
            Content::File(data) => data.len() as u64,
            _ => 0,
        });
        sizes.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them() {
        let mut tree = Tree::default();
        tree.program("usr/bin/a", "x");
        tree.configuration("etc/a/b", "yy");
        tree.folder("etc/a");
        let paths: Vec<_> = tree.entries().map(|(path, _)| path).collect();
        assert_eq!(paths, ["etc", "etc/a", "etc/a/b", "usr", "usr/bin", "usr/bin/a"]);
        assert_eq!(tree.size(), 3);
        assert_eq!(tree.data("usr/bin/a"), Some(&b"x"[..]));
        assert_eq!(tree.data("usr/bin"), None);
    }
}
