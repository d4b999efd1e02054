//! The second serial port, which carries the results.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::fd::AsFd;

use nix::sys::termios::{SetArg, cfmakeraw, tcdrain, tcgetattr, tcsetattr};

use nodewarden_guest_job::Mark;

/// The port.
pub const RESULTS: &str = "/dev/ttyS1";

/// Opens the port so that lines go through it as they are.
///
/// # Errors
/// When it is not there.
pub fn open() -> io::Result<File> {
    let port = File::options().append(true).open(RESULTS)?;
    let mut settings = tcgetattr(&port)?;
    cfmakeraw(&mut settings);
    tcsetattr(&port, SetArg::TCSANOW, &settings)?;
    Ok(port)
}

/// Opens the port for reading lines from it.
///
/// # Errors
/// When it is not there.
pub fn open_for_lines() -> io::Result<BufReader<File>> {
    // The settings are those of the port, not of a descriptor.
    let _raw = open()?;
    File::open(RESULTS).map(BufReader::new)
}

/// Writes a mark and waits until it has gone out; on the console if the port can't be written.
pub fn report(mark: &Mark) {
    let written = open().and_then(|mut port| {
        port.write_all(format!("{mark}\n").as_bytes())?;
        Ok(tcdrain(port.as_fd())?)
    });
    if let Err(error) = written {
        eprintln!("{RESULTS}: {error}\n{mark}");
    }
}
