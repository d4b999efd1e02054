//! `nodewarden top` on a terminal: keys, what it draws, and that it leaves the terminal as it was.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use parking_lot::Mutex;

use super::support::eventually;
use crate::fixture::{Agent, AgentOptions, die_with_parent};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("top_keys_and_ctrl_c", keys).needs(NEEDS).in_parallel(),
    Test::new("top_outlives_the_agent", outlives).needs(NEEDS).in_parallel(),
];

const NEEDS: &[Capability] = &[Capability::Root, Capability::Loopback];
const ARGUMENTS: [&str; 5] = ["top", "--show", "all", "--sort", "memory"];
/// Leaves the other screen, and shows the cursor: what has to be there at the end.
const RESTORED: [&str; 2] = ["\u{1b}[?1049l", "\u{1b}[?25h"];

/// The list of keys, the filter and a page open and close; Ctrl-C ends it with the terminal restored.
fn keys(context: &Context) -> Result<(), Failure> {
    let agent = Agent::start(context, &AgentOptions::default())?;
    let mut top = Terminal::start(context, &agent)?;
    top.shows("NAME")?;
    for (keys, word) in [
        ("?", "slower,"),
        ("?/zz", "clears"),
        // Every cgroup is below the root, which has the most memory.
        ("\u{1b}", "cmwinpa"),
        ("\r", "BELOW"),
        ("q", "NAME"),
    ] {
        top.forget();
        top.press(keys)?;
        top.shows(word)?;
    }
    top.forget();
    top.press("\u{3}")?;
    top.ends()
}

/// Without an agent it says so, and still has an ear for keys.
fn outlives(context: &Context) -> Result<(), Failure> {
    let mut agent = Agent::start(context, &AgentOptions::default())?;
    let mut top = Terminal::start(context, &agent)?;
    top.shows("NAME")?;
    agent.end(Signal::SIGTERM, context.patiently(5))?;
    top.shows("trying")?;
    top.forget();
    top.press("?")?;
    top.shows("slower,")?;
    top.forget();
    top.press("qq")?;
    top.ends()
}

/// A terminal with `top` on it.
struct Terminal {
    child: Child,
    keyboard: File,
    output: Arc<Mutex<Vec<u8>>>,
    wait: Duration,
}

impl Terminal {
    fn start(context: &Context, agent: &Agent) -> Result<Self, Failure> {
        let failed = || Failure::file("a terminal");
        let size = Winsize { ws_row: 30, ws_col: 140, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).map_err(|error| failed()(error.into()))?;
        let own = |fd: &OwnedFd| fd.try_clone().map_err(failed());
        let mut command = Command::new(&context.agent);
        command.args(ARGUMENTS).arg("--socket").arg(agent.socket()).env("TERM", "xterm-256color");
        command.stdin(own(&pair.slave)?).stdout(own(&pair.slave)?).stderr(Stdio::null());
        die_with_parent(&mut command);
        let child = command.spawn().map_err(Failure::file(&context.agent))?;
        let output = Arc::<Mutex<Vec<u8>>>::default();
        let (mut screen, shared) = (File::from(own(&pair.master)?), Arc::clone(&output));
        // Ends with an error when no process has the terminal open any more.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                shared.lock().extend(&buffer[..read]);
            }
        });
        Ok(Self { child, keyboard: File::from(pair.master), output, wait: context.patiently(15) })
    }

    fn press(&mut self, keys: &str) -> Result<(), Failure> {
        for key in keys.chars() {
            self.keyboard.write_all(key.to_string().as_bytes()).map_err(Failure::file("the keyboard"))?;
            // So that Escape is not taken for the begin of something longer.
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.lock()).into_owned()
    }

    /// Only what is written from now on counts.
    fn forget(&self) {
        self.output.lock().clear();
    }

    /// Waits until a word is written: between words there may be movements instead of spaces.
    fn shows(&self, word: &str) -> Result<(), Failure> {
        eventually(self.wait, &format!("{word:?} is not on the terminal"), || {
            Ok(self.text().contains(word).then_some(()))
        })
    }

    /// Waits for its end.
    fn ends(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + self.wait;
        let status = loop {
            if let Some(status) = self.child.try_wait().map_err(Failure::file("top"))? {
                break status;
            }
            ensure!(Instant::now() < deadline, "top does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        ensure_eq!(status.code(), Some(0), "exit status of top");
        for restored in RESTORED {
            self.shows(restored)?;
        }
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
