//! Finds the processes of the container runtime.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Pid;

use super::{DaemonError, process};

/// The runtime's processes: the one that listens on its socket, else the one that its pid file names, else
/// those with its name. Processes in containers, such as the runtime of a cluster in containers, are not
/// considered.
///
/// # Errors
/// No process was found.
pub fn find(socket: &Path) -> Result<Vec<Pid>, DaemonError> {
    let peer = peer(socket);
    let name = socket.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let candidates =
        Candidates { peer: peer.as_ref().ok().copied(), pid_file: pid_file(socket), named: named(&name) };
    let pids = candidates.choose(&name, process::name);
    let pids: Vec<Pid> = pids.into_iter().filter(|pid| is_on_host(*pid)).collect();
    if pids.is_empty() {
        let connect = match peer {
            Ok(pid) => format!("{} is held by process {pid}", socket.display()),
            Err(cause) => format!("{}: {cause}", socket.display()),
        };
        return Err(DaemonError::NoRuntime { connect, name });
    }
    Ok(pids)
}

/// The processes that may be the runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Candidates {
    /// The process that listens on the socket. With socket activation that is systemd, which created the
    /// socket; 0 stands for a process in another pid namespace.
    peer: Option<Pid>,
    pid_file: Option<Pid>,
    named: Vec<Pid>,
}

impl Candidates {
    /// The most reliable source is the socket. A pid file may be stale, so its process must have the `name`.
    fn choose(self, name: &str, name_of: impl Fn(Pid) -> String) -> Vec<Pid> {
        let sure = self.peer.filter(|pid| pid.as_raw() > 1);
        let by_pid_file = self.pid_file.filter(|pid| pid.as_raw() > 1 && name_of(*pid) == comm(name));
        match sure.or(by_pid_file) {
            Some(pid) => vec![pid],
            None => self.named,
        }
    }
}

/// The process that listens on `socket` (SO_PEERCRED: who called listen(2)).
fn peer(socket: &Path) -> Result<Pid, String> {
    let stream = UnixStream::connect(socket).map_err(|e| e.to_string())?;
    getsockopt(&stream, PeerCredentials).map(|c| Pid::from_raw(c.pid())).map_err(|e| e.to_string())
}

/// `containerd.pid` next to `containerd.sock`.
fn pid_file(socket: &Path) -> Option<Pid> {
    fs::read_to_string(socket.with_extension("pid")).ok()?.trim().parse().ok().map(Pid::from_raw)
}

/// All processes with the `comm` of a program.
fn named(name: &str) -> Vec<Pid> {
    let Ok(all) = procfs::process::all_processes() else { return Vec::new() };
    let pids = all.filter_map(|p| Some(Pid::from_raw(p.ok()?.pid())));
    pids.filter(|pid| !name.is_empty() && process::name(*pid) == comm(name)).collect()
}

/// The kernel keeps 15 bytes of a program's name (TASK_COMM_LEN with its NUL).
fn comm(name: &str) -> &str {
    let end = (0..=name.len().min(15)).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    &name[..end]
}

/// Whether a process is in no container: it has one number only, in the pid namespace of the /proc that we
/// read (proc_pid_status(5), `NSpid`). The kubelet compares `/proc/<pid>/ns/pid` with that of process 1,
/// which needs more privileges to read.
fn is_on_host(pid: Pid) -> bool {
    let status = procfs::process::Process::new(pid.as_raw()).and_then(|p| p.status());
    // A kernel without pid namespaces has no such line.
    status.is_ok_and(|s| s.nspid.is_none_or(|numbers| numbers.len() == 1))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_most_certain_process_is_chosen() {
        let pid = Pid::from_raw;
        let name_of = |pid: Pid| (if pid.as_raw() == 20 { "containerd" } else { "other" }).to_owned();
        for (peer, pid_file, named, chosen) in [
            (Some(10), Some(20), vec![30], vec![10]),
            // systemd made the socket, or the runtime is not to be seen.
            (Some(1), Some(20), vec![30], vec![20]),
            (Some(0), None, vec![30, 31], vec![30, 31]),
            (None, Some(20), vec![], vec![20]),
            // A pid file that was left behind.
            (None, Some(21), vec![30], vec![30]),
            (None, Some(1), vec![], vec![]),
            (None, None, vec![], vec![]),
        ] {
            let candidates = Candidates {
                peer: peer.map(pid),
                pid_file: pid_file.map(pid),
                named: named.into_iter().map(pid).collect(),
            };
            let chosen: Vec<Pid> = chosen.into_iter().map(pid).collect();
            assert_eq!(candidates.clone().choose("containerd", name_of), chosen, "{candidates:?}");
        }
    }

    #[test]
    fn names_are_cut_as_the_kernel_cuts_them() {
        assert_eq!(comm("containerd"), "containerd");
        assert_eq!(comm("a-very-long-runtime"), "a-very-long-run");
    }

    /// A process in a pid namespace of its own has two numbers.
    #[test]
    fn processes_in_containers_are_not_on_the_host() {
        assert!(is_on_host(Pid::this()));
        let child = std::process::Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "sleep", "60"])
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn();
        let Ok(mut child) = child else {
            nodewarden_testing::skip("no unshare(1)");
            return;
        };
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let inside = (0..200).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            fs::read_to_string(&children).ok()?.trim().parse().ok()
        });
        match inside {
            Some(pid) => assert!(!is_on_host(Pid::from_raw(pid))),
            None => nodewarden_testing::skip("no pid namespace can be made"),
        }
        let _killed = child.kill();
        let _waited = child.wait();
    }

    #[test]
    fn the_process_that_listens_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("runtime.sock");
        let error = find(&socket).unwrap_err().to_string();
        assert!(error.contains("No such file or directory"), "{error}");
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(find(&socket).unwrap(), [Pid::this()]);
    }
}
