//! A throw-away copy of this machine's file system, in which packages are installed: an overlay whose changes
//! are in memory, seen by this test's own process and those that it starts.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use crate::harness::{Context, Failure};

/// The root. What was changed in it is gone when the test's process ends.
pub struct ThrowAwayRoot {
    changes: PathBuf,
    merged: PathBuf,
    /// Where something is mounted, in the order in which it was.
    mounts: Vec<PathBuf>,
}

impl Drop for ThrowAwayRoot {
    fn drop(&mut self) {
        for path in self.mounts.iter().rev() {
            // What is still in use goes when its last user ends.
            let _gone = umount2(path, MntFlags::MNT_DETACH);
        }
    }
}

impl ThrowAwayRoot {
    /// Makes one; from now on this thread has mounts of its own.
    pub fn new(context: &Context) -> Result<Self, Failure> {
        unshare(CloneFlags::CLONE_NEWNS).map_err(|e| Failure::file("unshare(CLONE_NEWNS)")(e.into()))?;
        let none = None::<&str>;
        let mounted = |from: &str, at: &Path, kind: Option<&str>, flags: MsFlags, data: Option<&str>| {
            mount(Some(from), at, kind, flags, data).map_err(|e| Failure::file(at)(e.into()))
        };
        mounted("none", Path::new("/"), none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        let memory = context.temp.join("memory");
        let [changes, work, merged] = ["changes", "work", "merged"].map(|name| memory.join(name));
        fs::create_dir_all(&memory).map_err(Failure::file(&memory))?;
        mounted("tmpfs", &memory, Some("tmpfs"), MsFlags::empty(), Some("size=2g"))?;
        for folder in [&changes, &work, &merged] {
            fs::create_dir(folder).map_err(Failure::file(folder))?;
        }
        let data = format!("lowerdir=/,upperdir={},workdir={}", changes.display(), work.display());
        mounted("overlay", &merged, Some("overlay"), MsFlags::empty(), Some(&data))?;
        for folder in ["dev", "proc"] {
            mounted(&format!("/{folder}"), &merged.join(folder), none, MsFlags::MS_BIND, none)?;
        }
        // What an agent of this machine has left is not the package's.
        for folder in ["etc/nodewarden", "var/lib/nodewarden"] {
            match fs::remove_dir_all(merged.join(folder)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Failure::file(&merged.join(folder))(error));
                }
                _ => {}
            }
        }
        // Else each change of packages has mandb read all manual pages of the machine (README.Debian).
        let _where_there_is_none = fs::remove_file(merged.join("var/lib/man-db/auto-update"));
        let mounts = vec![memory, merged.clone(), merged.join("dev"), merged.join("proc")];
        Ok(Self { changes, merged, mounts })
    }

    /// The path of a file in the root, as this process sees it.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.merged.join(inside.trim_start_matches('/'))
    }

    /// Copies a file to `/tmp` in the root and returns its path there.
    pub fn bring(&self, file: &Path) -> Result<String, Failure> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let inside = format!("/tmp/{name}");
        fs::copy(file, self.path(&inside)).map_err(Failure::file(file))?;
        Ok(inside)
    }

    /// Runs a command in the root and returns what it printed; one that fails fails the test.
    pub fn run(&self, words: &[&str], variables: &[(&str, &OsStr)]) -> Result<String, Failure> {
        let mut command = Command::new("chroot");
        command.arg(&self.merged).args(words).stdin(Stdio::null());
        command.env("DEBIAN_FRONTEND", "noninteractive").envs(variables.iter().copied());
        let output = command.output().map_err(Failure::file("chroot"))?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        Err(Failure::Unexpected(format!("{words:?} in the throw-away root: {}: {text}", output.status)))
    }

    /// Paths with `name` in them that were made or changed in the root, and are there.
    pub fn left(&self, name: &str) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.changes, &mut |path| {
            let inside = path.strip_prefix(&self.changes).unwrap_or(path);
            let text = inside.display().to_string();
            // What was deleted is a device here, and nothing in the root.
            let is_there = fs::symlink_metadata(self.merged.join(inside)).is_ok();
            if text.contains(name) && is_there && !text.starts_with("tmp/") {
                found.push(text);
            }
        });
        found
    }
}

fn walk(folder: &Path, each: &mut impl FnMut(&Path)) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        each(&path);
        if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            walk(&path, each);
        }
    }
}
