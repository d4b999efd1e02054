//! The user's terminal while a command elsewhere has it.

use std::io::{IsTerminal, Read};

use nodewarden_proto::nodewarden::v1::TerminalSize;
use tokio::sync::mpsc;

use super::CliError;

/// Keys are handed over as they are typed; restored when dropped.
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

/// Whether keys are read.
pub fn is_input() -> bool {
    std::io::stdin().is_terminal()
}

/// `None` where there is none.
pub fn size() -> Option<TerminalSize> {
    let (columns, rows) = crossterm::terminal::size().ok()?;
    Some(TerminalSize { columns: columns.into(), rows: rows.into() })
}

/// Standard input until its end, on a thread that ends with the program: a read cannot be called back.
pub fn input() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(4);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut buffer = vec![0; 32 << 10];
        loop {
            match stdin.read(&mut buffer) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                // An input that cannot be read has no more to give.
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
