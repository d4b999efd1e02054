//! A Unix socket that only one agent can own and only root can open; the socket of an agent that has ended is
//! replaced.
//!
//! A lock file next to the socket distinguishes a live agent from a dead one: the kernel releases the lock of
//! a process that has ended for any reason. The socket is bound under another name, gets its final mode, and
//! is then renamed or linked: under its own name it never has wider permissions, and never refuses a
//! connection.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use nix::sys::stat::{Mode, fchmod};

/// Added to the path while the socket is not ready; `SOCKET_PATH_BYTES` of the configuration's defaults
/// leaves room for it.
const NEW: &str = ".new";

/// Why the agent cannot serve on a Unix socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another process serves on the socket or holds its lock.
    #[error("another nodewarden agent{} serves on {}", pid.map(|p| format!(" (pid {p})")).unwrap_or_default(), path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
        /// The process id in the lock file; `None` if it cannot be read or the other process has no lock.
        pid: Option<u32>,
    },
    /// Something else than a socket has this path; it is not removed.
    #[error("{} exists and is not a socket: remove it or choose another path", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The path has no directory or no file name, or the listener was taken before.
    #[error("the gRPC socket's path has no file name: {}", path.display())]
    BadPath {
        /// The path.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("gRPC socket: {call} {}: {source}", path.display())]
    Call {
        /// Name of the call, such as `bind`.
        call: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl SocketError {
    /// For `map_err`: names the call and the path.
    fn at<E: Into<io::Error>>(call: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::Call { call, path, source: source.into() }
    }
}

/// A socket that this process has bound. Dropping it removes the file.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    listener: Option<UnixListener>,
    /// Device and inode: only the file that was created is removed at the end.
    id: (u64, u64),
    _lock: Flock<File>,
}

/// A path that this process has locked: no live program serves on it, and no other agent can take it.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    lock: Flock<File>,
}

impl Claim {
    /// Creates the directory (mode 0700) if it is missing, and takes the lock.
    ///
    /// # Errors
    /// Another agent or program serves on it, the path is not a socket, or a call fails.
    pub fn take(path: &Path) -> Result<Self, SocketError> {
        let bad = || SocketError::BadPath { path: path.to_owned() };
        let dir = path.parent().filter(|d| !d.as_os_str().is_empty()).ok_or_else(bad)?;
        path.file_name().ok_or_else(bad)?;
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(SocketError::at("mkdir", dir))?;
        let lock = lock(path)?;
        clear(path)?;
        Ok(Self { path: path.to_owned(), lock })
    }

    /// Creates the socket (mode 0600) under another name and renames it.
    ///
    /// # Errors
    /// A call fails.
    pub fn bind(self) -> Result<Socket, SocketError> {
        let new = with_suffix(&self.path, NEW);
        let (listener, id) = listen_at(&new)?;
        fs::rename(&new, &self.path).map_err(SocketError::at("rename", &self.path))?;
        self.socket(listener, id)
    }

    /// Creates the socket (mode 0600) for programs that wait until a file of its name is created
    /// (`IN_CREATE`, which a rename is not) and connect in that moment: as a link to the socket of another
    /// name, which accepts connections by then. Between bind(2) and listen(2) they would be refused.
    ///
    /// # Errors
    /// A call fails.
    pub fn bind_in_place(self) -> Result<Socket, SocketError> {
        let new = with_suffix(&self.path, NEW);
        let (listener, id) = listen_at(&new)?;
        unlink(&self.path)?;
        fs::hard_link(&new, &self.path).map_err(SocketError::at("link", &self.path))?;
        unlink(&new)?;
        self.socket(listener, id)
    }

    fn socket(self, listener: UnixListener, id: (u64, u64)) -> Result<Socket, SocketError> {
        listener.set_nonblocking(true).map_err(SocketError::at("fcntl", &self.path))?;
        Ok(Socket { path: self.path, listener: Some(listener), id, _lock: self.lock })
    }
}

impl Socket {
    /// Creates the directory (mode 0700) if it is missing, and the socket (mode 0600).
    ///
    /// # Errors
    /// Another agent serves on it, the path is not a socket, or a call fails.
    pub fn claim(path: &Path) -> Result<Self, SocketError> {
        Claim::take(path)?.bind()
    }

    /// The listener, once; must be called within a tokio runtime.
    ///
    /// # Errors
    /// It was taken before, or the runtime cannot register it.
    pub fn listen(&mut self) -> Result<tokio::net::UnixListener, SocketError> {
        let listener =
            self.listener.take().ok_or_else(|| SocketError::BadPath { path: self.path.clone() })?;
        tokio::net::UnixListener::from_std(listener).map_err(SocketError::at("epoll_ctl", &self.path))
    }

    /// Removes the file if it is still the one that was created.
    pub fn remove(&self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.id);
        if ours && let Err(e) = fs::remove_file(&self.path) {
            tracing::warn!("{}", SocketError::at("unlink", &self.path)(e));
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.remove();
    }
}

fn unlink(path: &Path) -> Result<(), SocketError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(SocketError::at("unlink", path)(e)),
        _ => Ok(()),
    }
}

/// Device and inode.
fn id(path: &Path) -> Result<(u64, u64), SocketError> {
    let metadata = fs::symlink_metadata(path).map_err(SocketError::at("stat", path))?;
    Ok((metadata.dev(), metadata.ino()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Locks the lock file, which contains the process id of the owner.
fn lock(path: &Path) -> Result<Flock<File>, SocketError> {
    let lock_path = with_suffix(path, ".lock");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock_path)
        .map_err(SocketError::at("open", &lock_path))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut lock) => {
            // The process id is only used in a message, so an error is ignored.
            let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
            Ok(lock)
        }
        Err((mut file, Errno::EWOULDBLOCK)) => {
            let mut text = String::new();
            let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
            let pid = read.ok().and_then(|_| text.trim().parse().ok());
            Err(SocketError::InUse { path: path.to_owned(), pid })
        }
        Err((_, errno)) => Err(SocketError::at("flock", &lock_path)(errno)),
    }
}

/// Listens on a new socket (mode 0600) and says which file it is.
fn listen_at(path: &Path) -> Result<(UnixListener, (u64, u64)), SocketError> {
    unlink(path)?;
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)
        .map_err(SocketError::at("socket", path))?;
    // The file gets the mode that the socket has before (unix_bind_bsd), so it is never open to others.
    fchmod(&fd, Mode::S_IRUSR | Mode::S_IWUSR).map_err(SocketError::at("fchmod", path))?;
    let address = UnixAddr::new(path).map_err(SocketError::at("bind", path))?;
    bind(fd.as_raw_fd(), &address).map_err(SocketError::at("bind", path))?;
    listen(&fd, Backlog::MAXCONN).map_err(SocketError::at("listen", path))?;
    Ok((UnixListener::from(fd), id(path)?))
}

/// Whether the path may be taken: nothing is there, or a socket without a listener.
fn clear(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(SocketError::at("stat", path)(e)),
        Ok(m) if !m.file_type().is_socket() => {
            return Err(SocketError::NotASocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        // The process has no lock, so it is another program, but it is alive.
        Ok(_) => Err(SocketError::InUse { path: path.to_owned(), pid: None }),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_to_others_and_gone_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/n.sock");
        let socket = Socket::claim(&path).unwrap();
        let mode = |p: &Path| fs::metadata(p).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn in_its_place_it_is_closed_to_others_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubelet.sock");
        drop(UnixListener::bind(&path).unwrap());
        let socket = Claim::take(&path).unwrap().bind_in_place().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok());
        assert!(matches!(Claim::take(&path), Err(SocketError::InUse { .. })));
        drop(socket);
        assert!(!path.exists());
    }

    /// A device plugin that connects as soon as the socket is there would give up when it is refused.
    #[test]
    fn no_connection_is_refused_once_the_socket_is_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..200 {
            let path = dir.path().join(format!("{round}.sock"));
            let connecting = std::thread::spawn({
                let path = path.clone();
                move || loop {
                    match UnixStream::connect(&path) {
                        Err(error) if error.kind() == ErrorKind::NotFound => std::hint::spin_loop(),
                        connected => return connected.map(drop),
                    }
                }
            });
            let _socket = Claim::take(&path).unwrap().bind_in_place().unwrap();
            connecting.join().unwrap().unwrap();
        }
    }

    #[test]
    fn a_live_agents_socket_is_refused_with_its_pid() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n.sock");
        let _socket = Socket::claim(&path).unwrap();
        let text = Socket::claim(&path).unwrap_err().to_string();
        assert!(text.contains(&format!("another nodewarden agent (pid {})", std::process::id())), "{text}");
    }

    #[test]
    fn a_dead_agents_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left behind");
        let _socket = Socket::claim(&path).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn foreign_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n.sock");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Socket::claim(&path), Err(SocketError::NotASocket { .. })));
        fs::remove_file(&path).unwrap();
        let _someone = UnixListener::bind(&path).unwrap();
        assert!(matches!(Socket::claim(&path), Err(SocketError::InUse { pid: None, .. })));
        assert!(matches!(Socket::claim(Path::new("x")), Err(SocketError::BadPath { .. })));
    }

    #[test]
    fn another_file_of_that_name_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n.sock");
        let socket = Socket::claim(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(socket);
        assert!(path.exists());
    }
}
