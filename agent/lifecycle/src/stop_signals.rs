//! Signals that images ask for to be stopped with (`STOPSIGNAL`), each asked of the runtime once.

use std::collections::BTreeMap;
use std::str::FromStr;

use nix::sys::signal::Signal;
use parking_lot::Mutex;

use nodewarden_cri::Client;

/// Images whose signals are remembered; more are forgotten all at once.
const MOST: usize = 1024;

/// The stop signals of images, by the runtime's name of the image.
#[derive(Debug, Default)]
pub struct StopSignals(Mutex<BTreeMap<Box<str>, Option<Signal>>>);

impl StopSignals {
    /// The signal with which the runtime stops a container of this image. `None` where the agent does not
    /// know: the runtime does not show the image's configuration or cannot be asked, or it is a real-time
    /// signal.
    pub async fn of(&self, client: &Client, image: &str) -> Option<Signal> {
        if let Some(known) = self.0.lock().get(image) {
            return *known;
        }
        let answer = client.image_stop_signal(image).await.ok()?;
        let signal = answer.as_deref().and_then(parse);
        let mut all = self.0.lock();
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(image.into(), signal);
        signal
    }
}

/// As containerd's `ParseSignal`: a number or a name, with or without `SIG`; SIGTERM if it is empty.
fn parse(text: &str) -> Option<Signal> {
    if text.is_empty() {
        return Some(Signal::SIGTERM);
    }
    if let Ok(number) = text.parse::<i32>() {
        return Signal::try_from(number).ok();
    }
    let name = text.to_ascii_uppercase();
    Signal::from_str(&name).or_else(|_| Signal::from_str(&format!("SIG{name}"))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_signals_of_images() {
        for (text, signal) in [
            ("", Some(Signal::SIGTERM)),
            ("SIGQUIT", Some(Signal::SIGQUIT)),
            ("quit", Some(Signal::SIGQUIT)),
            ("USR1", Some(Signal::SIGUSR1)),
            ("9", Some(Signal::SIGKILL)),
            ("15", Some(Signal::SIGTERM)),
            // Real-time signals, and what is none.
            ("SIGRTMIN+3", None),
            ("37", None),
            ("0", None),
            ("-1", None),
            ("SIGFOO", None),
        ] {
            assert_eq!(parse(text), signal, "{text:?}");
        }
    }
}
