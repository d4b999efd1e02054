//! The files of `/var/log`, as at the kubelet's `/logs/`: nothing outside of it, whatever links are in it.
//!
//! Programs and pods that write there may put links, FIFOs and device files there. A path is resolved first
//! and must then be inside; what is opened is opened by that path with openat2(2), which follows no link and
//! does not leave the directory, so that no process can exchange a part of the path in between. Only regular
//! files and directories are shown.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use nodewarden_tasks::blocking;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::answer;

/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// Chunks that wait for a client.
const WAITING: usize = 4;
/// Names of a directory that are listed at most.
const NAMES: usize = 10_000;

/// What is at a path.
#[derive(Debug)]
enum Found {
    /// A file, and how many bytes it had.
    File(File, u64),
    /// The names in a directory, those of directories with a `/` behind.
    Directory(Vec<String>),
}

/// The file or directory `path`, which begins with `/` or is empty, below `root`.
pub async fn respond(root: &Path, path: &str) -> Response {
    let Some(below) = inside(path) else {
        return answer::text(StatusCode::BAD_REQUEST, "invalid URL path\n");
    };
    let root = root.to_owned();
    let found = blocking::LOG_READING.run(move || look(&root, &below)).await;
    match found.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(Found::Directory(names)) => listing(&names),
        Ok(Found::File(file, length)) => {
            let (chunks, body) = mpsc::channel(WAITING);
            tokio::spawn(send(file, length, chunks));
            let body = Body::from_stream(ReceiverStream::new(body));
            ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            answer::text(StatusCode::NOT_FOUND, "404 page not found\n")
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            answer::text(StatusCode::FORBIDDEN, "403 Forbidden\n")
        }
        Err(error) => {
            tracing::warn!(path, %error, "a log file of the node cannot be read");
            answer::text(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error\n")
        }
    }
}

/// The path below the directory; `None` if it has `..` or a zero byte.
fn inside(path: &str) -> Option<PathBuf> {
    let mut below = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => below.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    (!path.contains('\0')).then_some(below)
}

fn look(root: &Path, below: &Path) -> io::Result<Found> {
    let root = root.canonicalize()?;
    let whole = root.join(below).canonicalize()?;
    let Ok(below) = whole.strip_prefix(&root) else { return Err(io::ErrorKind::PermissionDenied.into()) };
    let directory = open(&root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let file = open_below(&directory, below)?;
    let facts = file.metadata()?;
    if facts.is_file() {
        return Ok(Found::File(file, facts.len()));
    }
    if !facts.is_dir() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // The very directory that was opened.
    let held = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let mut names = Vec::new();
    for entry in fs::read_dir(held)?.take(NAMES) {
        let entry = entry?;
        let end = if entry.file_type()?.is_dir() { "/" } else { "" };
        names.push(format!("{}{end}", entry.file_name().to_string_lossy()));
    }
    names.sort_unstable();
    Ok(Found::Directory(names))
}

/// Opens a path without links, and without waiting for the other end of a FIFO.
fn open_below(directory: &OwnedFd, below: &Path) -> io::Result<File> {
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = openat2(directory, below, flags | OFlags::NOFOLLOW, Mode::empty(), resolve);
    let opened = opened.map_err(|errno| match errno {
        // A socket, or a path that was changed meanwhile.
        rustix::io::Errno::NXIO | rustix::io::Errno::LOOP | rustix::io::Errno::XDEV => {
            io::Error::from(io::ErrorKind::PermissionDenied)
        }
        errno => errno.into(),
    })?;
    Ok(File::from(opened))
}

/// The names as links, as Go's file server shows them.
fn listing(names: &[String]) -> Response {
    let mut page =
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n".to_owned();
    for name in names {
        let link: String = form_urlencoded::byte_serialize(name.trim_end_matches('/').as_bytes()).collect();
        let (link, end) = (link.replace('+', "%20"), if name.ends_with('/') { "/" } else { "" });
        // Writing to a text cannot fail.
        let _ = writeln!(page, "<a href=\"{link}{end}\">{}</a>", escaped(name));
    }
    page.push_str("</pre>\n");
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&#34;")
        .replace('\'', "&#39;")
}

/// Sends as much as the file had when it was opened.
async fn send(mut file: File, length: u64, chunks: mpsc::Sender<io::Result<Bytes>>) {
    let mut left = length;
    while left > 0 {
        let wanted = CHUNK.min(usize::try_from(left).unwrap_or(CHUNK));
        let read = blocking::LOG_READING.run(move || {
            let mut chunk = vec![0; wanted];
            let read = file.read(&mut chunk);
            chunk.truncate(*read.as_ref().unwrap_or(&0));
            (file, read.map(|_| chunk))
        });
        let (back, read) = match read.await {
            Ok(read) => read,
            Err(_) => return,
        };
        file = back;
        let end = match &read {
            Ok(chunk) => chunk.is_empty(),
            Err(error) => {
                tracing::warn!(%error, "a log file of the node is cut");
                true
            }
        };
        left = left.saturating_sub(read.as_ref().map_or(0, |chunk| chunk.len() as u64));
        if read.as_ref().is_ok_and(Vec::is_empty) || chunks.send(read.map(Bytes::from)).await.is_err() || end
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use http_body_util::BodyExt;
    use nix::sys::stat::Mode as FileMode;
    use nix::unistd::mkfifo;

    use super::*;

    async fn get(root: &Path, path: &str) -> (u16, String) {
        let response = respond(root, path).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn files_and_directories_inside_and_nothing_outside() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("log"), dir.path().join("secret"));
        fs::create_dir_all(root.join("pods/web")).unwrap();
        fs::write(&outside, "secret").unwrap();
        fs::write(root.join("syslog"), "x".repeat(200_000)).unwrap();
        fs::write(root.join("pods/web/0.log"), "line\n").unwrap();
        fs::write(root.join("a<b>&"), "").unwrap();
        symlink(root.join("pods/web/0.log"), root.join("link")).unwrap();
        symlink(root.join("pods"), root.join("linked")).unwrap();
        symlink(&outside, root.join("out")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        mkfifo(&root.join("fifo"), FileMode::S_IRWXU).unwrap();
        for (path, status, body) in [
            ("/pods/web/0.log", 200, "line\n"),
            ("/link", 200, "line\n"),
            ("/linked/web/0.log", 200, "line\n"),
            ("//pods/./web/0.log", 200, "line\n"),
            ("/missing", 404, "404 page not found\n"),
            ("/out", 403, "403 Forbidden\n"),
            ("/up/secret", 403, "403 Forbidden\n"),
            ("/up/log/link", 200, "line\n"),
            ("/magic/etc/passwd", 403, "403 Forbidden\n"),
            ("/fifo", 403, "403 Forbidden\n"),
            ("/../secret", 400, "invalid URL path\n"),
            ("/pods/../../secret", 400, "invalid URL path\n"),
            ("/a\0b", 400, "invalid URL path\n"),
        ] {
            assert_eq!(get(&root, path).await, (status, body.to_owned()), "{path:?}");
        }
        assert_eq!(get(&root, "/syslog").await.1.len(), 200_000);
        for path in ["", "/"] {
            let (status, page) = get(&root, path).await;
            assert_eq!(status, 200);
            assert!(page.contains("<a href=\"pods/\">pods/</a>\n"), "{page}");
            assert!(page.contains("<a href=\"a%3Cb%3E%26\">a&lt;b&gt;&amp;</a>\n"), "{page}");
        }
    }
}
