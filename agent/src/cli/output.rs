//! Standard output: locked, buffered, with a check for a closed pipe.

use std::io::{BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Standard output, buffered: the caller has to flush.
pub fn stdout() -> impl Write {
    BufWriter::new(std::io::stdout().lock())
}

/// Writes the text and flushes.
pub fn print(text: &str) -> std::io::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether the reader of our pipe has closed it, found without writing.
pub fn reader_is_gone() -> bool {
    let out = std::io::stdout();
    let mut fds = [PollFd::new(out.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO).is_ok()
        && fds[0].revents().is_some_and(|r| r.intersects(PollFlags::POLLERR | PollFlags::POLLNVAL))
}
