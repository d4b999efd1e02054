//! Real cgroups for tests, below a root of their own that is removed with the test.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;
use strum::IntoEnumIterator;

use super::group_path::join;
use super::{Controller, Hierarchy, Layout, Version};

/// A v2 hierarchy whose mount is a plain directory.
pub fn fixture_hierarchy(mount: &Path) -> Hierarchy {
    Hierarchy {
        id: 0,
        mount: mount.to_owned(),
        mount_root: "/".to_owned(),
        version: Version::V2,
        controllers: Controller::iter().collect(),
    }
}

/// `/nodewarden-test-<pid>-<name>-<n>` in every hierarchy of this machine.
pub struct TestTree {
    /// This machine's layout.
    pub layout: Arc<Layout>,
    root: String,
    children: parking_lot::Mutex<Vec<Child>>,
}

impl TestTree {
    /// Creates the root; prints the reason and returns `None` if it cannot, and the test has to be skipped.
    pub fn make(name: &str) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let layout = match Layout::detect() {
            Ok(layout) => Arc::new(layout),
            Err(err) => {
                nodewarden_testing::skip(&err);
                return None;
            }
        };
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = format!("/nodewarden-test-{}-{name}-{n}", std::process::id());
        let tree = Self { layout, root, children: parking_lot::Mutex::default() };
        for hierarchy in tree.layout.all() {
            if let Err(err) = fs::create_dir(join(&hierarchy.mount, &tree.root)) {
                nodewarden_testing::skip(format_args!(
                    "cannot make a cgroup in {}: {err}",
                    hierarchy.mount.display()
                ));
                return None;
            }
            tree.delegate(hierarchy, &tree.root);
        }
        Some(tree)
    }

    /// The cgroup path of `below`.
    pub fn path(&self, below: &str) -> String {
        if below.is_empty() { self.root.clone() } else { format!("{}/{below}", self.root) }
    }

    /// Creates a cgroup and its parents in every hierarchy.
    pub fn group(&self, below: &str) -> String {
        let path = self.path(below);
        for hierarchy in self.layout.all() {
            fs::create_dir_all(join(&hierarchy.mount, &path)).expect("test cgroup");
            let parents: Vec<&str> = below.split('/').collect();
            for depth in 1..parents.len() {
                self.delegate(hierarchy, &self.path(&parents[..depth].join("/")));
            }
        }
        path
    }

    /// Removes a cgroup from every hierarchy.
    pub fn remove(&self, below: &str) {
        for hierarchy in self.layout.all() {
            let dir = join(&hierarchy.mount, &self.path(below));
            // A process that was just reaped may still count for a moment.
            let removed = (0..100).any(|_| {
                fs::remove_dir(&dir).map_or_else(
                    |_| {
                        sleep(Duration::from_millis(10));
                        false
                    },
                    |()| true,
                )
            });
            assert!(removed, "removing {}", dir.display());
        }
    }

    /// Runs a shell script in a cgroup (in all hierarchies) from its first line on; killed when the tree is
    /// dropped.
    pub fn run(&self, below: &str, script: &str) -> u32 {
        let mut child = Command::new("/bin/sh")
            .args(["-c", &format!("read go; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        let pid = child.id();
        for hierarchy in self.layout.all() {
            let procs = join(&hierarchy.mount, &self.path(below)).join("cgroup.procs");
            // cpuset accepts no process without CPUs and memory nodes; these tests do not need it.
            if fs::write(&procs, pid.to_string()).is_err() {
                assert!(hierarchy.controllers == [Controller::Cpuset], "cannot enter {}", procs.display());
            }
        }
        child.stdin.take().expect("piped").write_all(b"\n").expect("the shell reads");
        self.children.lock().push(child);
        pid
    }

    /// Ends a process that `run` started.
    pub fn stop(&self, pid: u32) {
        let mut children = self.children.lock();
        let at = children.iter().position(|c| c.id() == pid).expect("a child of this tree");
        let mut child = children.remove(at);
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Writes a file of a cgroup in the hierarchy of a controller.
    pub fn write(&self, controller: Controller, below: &str, file: &str, text: &str) {
        let hierarchy = self.layout.hierarchy(controller).expect("controller");
        fs::write(join(&hierarchy.mount, &self.path(below)).join(file), text).expect(file);
    }

    fn delegate(&self, hierarchy: &Hierarchy, path: &str) {
        if hierarchy.version == Version::V2 {
            for controller in hierarchy.controllers.iter().filter_map(|c| c.v2_name()) {
                let file = join(&hierarchy.mount, path).join("cgroup.subtree_control");
                let _ = fs::write(file, format!("+{controller}"));
            }
        }
    }
}

impl Drop for TestTree {
    fn drop(&mut self) {
        // Frozen processes of a failed test could not end.
        if let Some(freezer) = self.layout.freezer() {
            thaw(&join(freezer, &self.root));
        }
        for mut child in self.children.get_mut().drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
        for hierarchy in self.layout.all() {
            // A process that was just reaped may still count for a moment.
            for _ in 0..100 {
                remove_tree(&join(&hierarchy.mount, &self.root));
                if !join(&hierarchy.mount, &self.root).exists() {
                    break;
                }
                sleep(Duration::from_millis(10));
            }
        }
    }
}

fn thaw(dir: &Path) {
    let _ = fs::write(dir.join("freezer.state"), "THAWED");
    let below = fs::read_dir(dir).into_iter().flatten().flatten();
    below.filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir())).for_each(|entry| thaw(&entry.path()));
}

fn remove_tree(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    // Processes that the shells of the test have started.
    for pid in fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines() {
        if let Some(pid) = pid.parse().ok().filter(|pid| *pid > 1) {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
    let _ = fs::remove_dir(dir);
}
