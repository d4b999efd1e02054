//! Every cgroup of a hierarchy with its kernel id.
//!
//! The inode number of a cgroup's directory is the cgroup's id (kernfs id, `bpf_get_current_cgroup_id` on
//! v2), so the walk takes it from the directory entries and needs no stat for it. One `fstatat` per directory
//! shows from the link count (2 + subdirectories on kernfs) whether it has children; leaves, which are most,
//! are never opened.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use log::debug;
use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode, fstatat, stat};

use super::Hierarchy;
use super::group_path::join;

/// Lists the cgroups of a hierarchy, the root (`/`) first, parents before their children. Directories that
/// are removed meanwhile are left out, as are names that are not UTF-8.
pub fn walk(hierarchy: &Hierarchy) -> Walk {
    let mut found = VecDeque::new();
    let mut unlisted = Vec::new();
    if let Ok(stat) = stat(&hierarchy.mount) {
        let root: Arc<str> = Arc::from("/");
        found.push_back((root.clone(), stat.st_ino));
        unlisted.push(root);
    }
    Walk { mount: hierarchy.mount.clone(), found, unlisted }
}

/// See [`walk`].
#[derive(Debug)]
pub struct Walk {
    mount: PathBuf,
    found: VecDeque<(Arc<str>, u64)>,
    unlisted: Vec<Arc<str>>,
}

impl Iterator for Walk {
    /// Path below the mount, beginning with `/`, and the inode number.
    type Item = (Arc<str>, u64);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.found.pop_front() {
                return Some(item);
            }
            let path = self.unlisted.pop()?;
            self.list(&path);
        }
    }
}

impl Walk {
    fn list(&mut self, path: &str) {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut dir = match Dir::open(&join(&self.mount, path), flags, Mode::empty()) {
            Ok(dir) => dir,
            Err(err) => return debug!("cgroup {path} left the walk: {err}"),
        };
        let first = self.found.len();
        for entry in dir.iter() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(err) => {
                    debug!("cgroup {path} left the walk: {err}");
                    break;
                }
            };
            if entry.file_type() != Some(Type::Directory) {
                continue;
            }
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let child = if path == "/" { format!("/{name}") } else { format!("{path}/{name}") };
            self.found.push_back((Arc::from(child), entry.ino()));
        }
        for (child, _) in self.found.iter().skip(first) {
            let name = child.rsplit('/').next().unwrap_or_default();
            // Where the link count does not show it (1 on some file systems), look inside.
            let leaf = match fstatat(&dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(stat) => stat.st_nlink == 2,
                Err(_) => true,
            };
            if !leaf {
                self.unlisted.push(child.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::super::fixture::{TestTree, fixture_hierarchy};
    use super::*;

    #[test]
    fn walks_a_tree_with_inodes() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a/b/c", "a/d", "e"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        fs::write(dir.path().join("a/cgroup.procs"), "").unwrap();
        let found: Vec<_> = walk(&fixture_hierarchy(dir.path())).collect();
        let by_path: BTreeMap<_, _> = found.iter().map(|(p, i)| (p.as_ref(), *i)).collect();
        assert_eq!(by_path.keys().copied().collect::<Vec<_>>(), ["/", "/a", "/a/b", "/a/b/c", "/a/d", "/e"]);
        for (path, inode) in &by_path {
            assert_eq!(fs::metadata(dir.path().join(&path[1..])).unwrap().ino(), *inode);
        }
        let position = |p: &str| found.iter().position(|(q, _)| q.as_ref() == p).unwrap();
        assert!(position("/a") < position("/a/b") && position("/a/b") < position("/a/b/c"));
    }

    #[test]
    fn vanishing_directories_do_not_stop_it() {
        let dir = tempfile::tempdir().unwrap();
        for i in 0..50 {
            fs::create_dir_all(dir.path().join(format!("g{i}/x"))).unwrap();
        }
        let mut walk = walk(&fixture_hierarchy(dir.path()));
        for _ in 0..3 {
            assert!(walk.next().is_some());
        }
        for i in 0..50 {
            fs::remove_dir_all(dir.path().join(format!("g{i}"))).unwrap();
        }
        assert_eq!(walk.count(), 48);
        fs::remove_dir(dir.path()).unwrap();
        assert_eq!(super::walk(&fixture_hierarchy(dir.path())).count(), 0);
        fs::create_dir(dir.path()).unwrap();
    }

    #[test]
    fn real_cgroups_have_their_kernel_id() {
        let Some(tree) = TestTree::make("walk") else { return };
        tree.group("pod1/c1");
        for hierarchy in tree.layout.hierarchies() {
            let path = tree.path("pod1/c1");
            let (_, inode) = walk(hierarchy).find(|(p, _)| p.as_ref() == path).expect("the new cgroup");
            assert_eq!(fs::metadata(join(&hierarchy.mount, &path)).unwrap().ino(), inode);
        }
    }
}
