//! A terminal for a command, and its lines.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use nix::pty::{Winsize, openpty};

/// The side of a terminal at which someone sits.
pub struct Terminal {
    /// What is typed.
    pub input: File,
    /// What is shown.
    pub output: File,
}

impl Terminal {
    /// Makes the streams of `command` those of a new terminal.
    pub fn new(command: &mut Command) -> io::Result<Self> {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None)?;
        let (inside, input) = (File::from(pair.slave), File::from(pair.master));
        command.stdin(Stdio::from(inside.try_clone()?));
        command.stdout(Stdio::from(inside.try_clone()?)).stderr(Stdio::from(inside));
        Ok(Self { output: input.try_clone()?, input })
    }
}

/// The lines of a stream, as they arrive.
pub fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
