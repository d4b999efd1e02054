//! The user's terminal while a command in a container uses it.

use std::io::{IsTerminal, Read};

use nodewarden_proto::nodewarden::v1::TerminalSize;
use tokio::sync::mpsc;

use super::CliError;

/// Raw mode: keys are passed on as they are typed. The previous mode is restored on drop.
#[derive(Debug)]
pub struct Raw(());

impl Raw {
    pub fn enter() -> Result<Self, CliError> {
        crossterm::terminal::enable_raw_mode()
            .map_err(|source| CliError::Terminal { call: "tcsetattr", source })?;
        Ok(Self(()))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _gone = crossterm::terminal::disable_raw_mode();
    }
}

/// Whether standard input is a terminal.
pub fn is_input() -> bool {
    std::io::stdin().is_terminal()
}

/// Size of the terminal; `None` if there is none.
pub fn size() -> Option<TerminalSize> {
    let (columns, rows) = crossterm::terminal::size().ok()?;
    Some(TerminalSize { columns: columns.into(), rows: rows.into() })
}

/// Standard input until its end, read on a thread that lives until the program ends, because a blocked read
/// cannot be cancelled.
pub fn input() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(4);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut buffer = vec![0; 32 << 10];
        loop {
            match stdin.read(&mut buffer) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                // A read error is treated as the end of input.
                Ok(0) | Err(_) => return,
                Ok(n) => {
                    if sender.blocking_send(buffer[..n].to_vec()).is_err() {
                        return;
                    }
                }
            }
        }
    });
    receiver
}
