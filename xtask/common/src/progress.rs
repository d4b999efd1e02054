//! One line per step: rewritten in place on a terminal, repeated now and then elsewhere.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Without a terminal a running step says so this often.
const REMINDER: Duration = Duration::from_secs(20);
/// A step's line stays this short, so that it can be rewritten in place.
const LINE_WIDTH: usize = 78;

/// The progress of one step, shown on standard error.
#[derive(Debug)]
pub struct Progress {
    label: String,
    doing: String,
    started: Instant,
    shown: Instant,
    terminal: bool,
}

impl Progress {
    /// Step `number` of `total`, not yet shown.
    pub fn new(number: usize, total: usize, name: &str) -> Self {
        Self::labelled(format!("[{number}/{total}] {name}"))
    }

    /// A step that is none of several, not yet shown.
    pub fn labelled(label: impl Into<String>) -> Self {
        let (now, label) = (Instant::now(), label.into());
        Self { label, doing: String::new(), started: now, shown: now, terminal: stderr().is_terminal() }
    }

    /// Says what is being done from now on.
    pub fn begin(&mut self, doing: &str) {
        doing.clone_into(&mut self.doing);
        self.show(&format!("{} … {doing}", self.label));
    }

    /// Says that time passes; `line` is the newest line of the program at work.
    pub fn tick(&mut self, line: Option<&str>) {
        let pause = if self.terminal { Duration::from_millis(200) } else { REMINDER };
        if self.shown.elapsed() < pause {
            return;
        }
        let elapsed = duration(self.started.elapsed());
        let line = line.map(|line| format!(": {}", line.trim())).unwrap_or_default();
        self.show(&format!("{} … {} ({elapsed}){line}", self.label, self.doing));
    }

    /// Ends the step with `outcome`.
    pub fn end(&mut self, outcome: &str) {
        self.show(&format!("{} … {outcome}", self.label));
        if self.terminal {
            eprintln!();
        }
    }

    /// Ends the step as done, with the time it took.
    pub fn end_timed(&mut self) {
        self.end(&format!("done in {}", duration(self.started.elapsed())));
    }

    fn show(&mut self, text: &str) {
        self.shown = Instant::now();
        if self.terminal {
            let text: String = text.chars().take(LINE_WIDTH).collect();
            eprint!("\r\x1b[K{text}");
            // A terminal that is gone must not end the installation.
            let _ = stderr().flush();
        } else {
            eprintln!("{text}");
        }
    }
}

/// `43 s` or `2 min 05 s`.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {:02} s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        for (seconds, text) in [(0, "0 s"), (59, "59 s"), (60, "1 min 00 s"), (125, "2 min 05 s")] {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }
}
