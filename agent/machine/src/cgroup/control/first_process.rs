//! The first process of a container, which a stop signal is for.
//!
//! A runtime sends a signal by starting a program of its own (containerd: `runc kill`), which takes some 7 ms
//! of CPU time.

use std::fs;
use std::io;
use std::path::Path;

use nix::sys::signal::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::destroy::{Handle, own_pid};
use super::{GroupFiles, members};
use crate::cgroup::CgroupError;

/// The parents of first processes. Of containers of other runtimes it is not known that their first process
/// is what a stop signal is for (a virtual machine, for example).
const SHIMS: [&str; 1] = ["containerd-shim-runc-v2"];
/// A container's cgroup with more processes is left to the runtime: the search reads two files of each.
const MOST: usize = 1024;

/// A container's first process, held by a descriptor.
#[derive(Debug)]
pub struct FirstProcess(Handle);

impl FirstProcess {
    /// Finds the first process of the container `id` in a pod's cgroup: the only one there with number 1 in a
    /// pid namespace of its own and with containerd's shim as its parent. `None` if there is no such process,
    /// as for containers that share a pid namespace, or more than one.
    ///
    /// # Errors
    /// A file of the cgroup exists and cannot be read.
    pub fn find(files: &GroupFiles, pod: &str, id: &str) -> Result<Option<Self>, CgroupError> {
        Self::find_below(files, pod, id, &SHIMS)
    }

    fn find_below(
        files: &GroupFiles,
        pod: &str,
        id: &str,
        parents: &[&str],
    ) -> Result<Option<Self>, CgroupError> {
        let names = members::children_in_one(files, pod)?;
        let Some(name) = names.iter().find(|name| !id.is_empty() && name.contains(id)) else {
            return Ok(None);
        };
        let group = format!("{pod}/{name}");
        let pids = members::pids_in_one(files, std::slice::from_ref(&group))?;
        if pids.len() > MOST {
            return Ok(None);
        }
        let mut first = pids.into_iter().filter(|pid| is_first(*pid, parents));
        let (Some(pid), None) = (first.next(), first.next()) else { return Ok(None) };
        let Ok(handle) = Handle::open(pid) else { return Ok(None) };
        // Looked at again now that the descriptor holds it: before, another process may have had its number.
        let same = is_first(pid, parents) && members::is_below(files, pid, &group) && pid != own_pid();
        Ok(same.then_some(Self(handle)))
    }

    /// Has the kernel report its end. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The runtime cannot watch the descriptor.
    pub fn watch(self) -> io::Result<WatchedProcess> {
        // SAFETY: the AsyncFd owns the descriptor, which stays the same and is closed after it is no longer
        // watched.
        let watched = unsafe { AsyncFd::register_with_interest(self.0, Interest::READABLE) };
        Ok(WatchedProcess(watched?))
    }
}

/// A container's first process whose end can be waited for.
#[derive(Debug)]
pub struct WatchedProcess(AsyncFd<Handle>);

impl WatchedProcess {
    /// Sends it a signal. It is no error if it has ended already.
    ///
    /// # Errors
    /// As of pidfd_send_signal(2).
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        self.0.get_ref().signal(signal)
    }

    /// Waits until it has ended. May be dropped and called again.
    ///
    /// # Errors
    /// The runtime is being shut down.
    pub async fn ended(&self) -> io::Result<()> {
        // What was readable is not cleared: it stays so.
        self.0.readable().await.map(drop)
    }
}

/// Whether a process has number 1 in a pid namespace below ours, and one of these programs as its parent.
/// False if it has ended.
fn is_first(pid: i32, parents: &[&str]) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let is_one = field("NSpid:").is_some_and(|numbers| {
        let numbers: Vec<&str> = numbers.split_whitespace().collect();
        numbers.len() > 1 && numbers.last() == Some(&"1")
    });
    let parent = field("PPid:").and_then(|parent| parent.trim().parse::<i32>().ok());
    is_one && parent.is_some_and(|parent| program(parent).is_some_and(|name| parents.contains(&&*name)))
}

/// The file name of the program that a process was started as.
fn program(pid: i32) -> Option<String> {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let path = String::from_utf8(arguments.split(|byte| *byte == 0).next()?.to_vec()).ok()?;
    Some(Path::new(&path).file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::cgroup::fixture::TestTree;

    /// The program that starts the containers of these tests.
    const PARENT: [&str; 1] = ["unshare"];

    /// Whether `is` becomes true.
    fn eventually(mut is: impl FnMut() -> bool) -> bool {
        let begun = Instant::now();
        while !is() {
            if begun.elapsed() > Duration::from_secs(10) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    fn files(tree: &TestTree) -> GroupFiles {
        GroupFiles::new(tree.layout.clone())
    }

    #[test]
    fn the_first_process_of_a_container_gets_the_signal_and_no_other() {
        let Some(tree) = TestTree::make("first-process") else { return };
        let (files, pod) = (files(&tree), tree.group("pod"));
        tree.group("pod/cri-containerd-c1.scope");
        tree.group("pod/c2");
        let dir = tempfile::tempdir().unwrap();
        let (ready, caught) = (dir.path().join("ready"), dir.path().join("caught"));
        let script = format!(
            "exec unshare --pid --fork --kill-child sh -c 'trap \": > {}; exit\" USR1; : > {}; while :; do sleep 0.01; done'",
            caught.display(),
            ready.display()
        );
        tree.run("pod/cri-containerd-c1.scope", &script);
        tree.run("pod/c2", "sleep 60");
        assert!(eventually(|| ready.exists()));
        let find = |id: &str, parents: &[&str]| FirstProcess::find_below(&files, &pod, id, parents).unwrap();
        for (id, parents) in [("c1", &SHIMS), ("c2", &PARENT), ("c3", &PARENT), ("", &PARENT)] {
            assert!(find(id, parents).is_none(), "{id} {parents:?}");
        }
        let first = find("c1", &PARENT).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (first, again) = (first.watch().unwrap(), find("c1", &PARENT).unwrap());
            let limit = Duration::from_millis(50);
            assert!(tokio::time::timeout(limit, first.ended()).await.is_err(), "it has not ended yet");
            first.signal(Signal::SIGUSR1).unwrap();
            tokio::time::timeout(Duration::from_secs(10), first.ended()).await.unwrap().unwrap();
            assert!(caught.exists() && find("c1", &PARENT).is_none());
            first.signal(Signal::SIGKILL).unwrap();
            again.watch().unwrap().ended().await.unwrap();
        });
    }

    #[test]
    fn two_first_processes_in_one_cgroup_are_left_to_the_runtime() {
        let Some(tree) = TestTree::make("first-processes") else { return };
        let (files, pod) = (files(&tree), tree.group("pod"));
        tree.group("pod/c1");
        let find = || FirstProcess::find_below(&files, &pod, "c1", &PARENT).unwrap();
        tree.run("pod/c1", "exec unshare --pid --fork --kill-child sleep 60");
        assert!(eventually(|| find().is_some()));
        tree.run("pod/c1", "exec unshare --pid --fork --kill-child sleep 60");
        assert!(eventually(|| find().is_none()));
    }
}
