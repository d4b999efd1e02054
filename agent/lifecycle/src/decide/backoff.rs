//! CrashLoopBackOff: how long a container that keeps ending waits for its next start (kubelet `doBackOff`,
//! client-go `flowcontrol.Backoff`).

use std::time::Duration;

use jiff::Timestamp;

use nodewarden_config::PodSettings;
use nodewarden_model::backoff::Backoff;

/// Time between the end of a container and its next start, given how many ends in a row count, this one among
/// them. After the first it starts at once; then the initial wait, doubled with each end up to the longest.
pub fn delay(failures: u32, settings: &PodSettings) -> Duration {
    match failures.checked_sub(2) {
        None => Duration::ZERO,
        Some(doublings) => Backoff::doubling(settings.backoff_initial, settings.backoff_max).nth(doublings),
    }
}

/// The count after one more end. For a container that ran long enough it starts at one again.
pub fn count(failures: u32, ran: Duration, settings: &PodSettings) -> u32 {
    if ran > settings.backoff_reset { 1 } else { failures.saturating_add(1) }
}

/// The time from one moment to another; zero where the clock went back.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// A moment later; the end of time at most.
pub fn after(moment: Timestamp, wait: Duration) -> Timestamp {
    moment.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// The kubelet's message for a container that waits.
pub fn message(wait: Duration, container: &str, namespace: &str, pod: &str, uid: &str) -> String {
    format!("back-off {} restarting failed container={container} pod={pod}_{namespace}({uid})", go(wait))
}

/// As Go writes a `time.Duration` of whole milliseconds: `10s`, `1m20s`, `2m40s`, `1.5s`, `1h0m0s`.
pub fn go(duration: Duration) -> String {
    let (seconds, milliseconds) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 && milliseconds > 0 {
        return format!("{milliseconds}ms");
    }
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = match milliseconds {
        0 => String::new(),
        n => format!(".{n:03}").trim_end_matches('0').to_owned(),
    };
    match (hours, minutes) {
        (0, 0) => format!("{rest}{fraction}s"),
        (0, _) => format!("{minutes}m{rest}{fraction}s"),
        _ => format!("{hours}h{minutes}m{rest}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_the_longest() {
        let settings = PodSettings::default();
        let waits: Vec<u64> = (0..10).map(|n| delay(n, &settings).as_secs()).collect();
        assert_eq!(waits, [0, 0, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(delay(u32::MAX, &settings).as_secs(), 300);
        let short = PodSettings { backoff_max: Duration::from_secs(1), ..settings };
        assert_eq!(delay(2, &short).as_secs(), 1);
    }

    #[test]
    fn the_count_is_reset_after_a_long_run() {
        let settings = PodSettings::default();
        assert_eq!(count(0, Duration::ZERO, &settings), 1);
        assert_eq!(count(5, Duration::from_secs(600), &settings), 6);
        assert_eq!(count(5, Duration::from_secs(601), &settings), 1);
        assert_eq!(count(u32::MAX, Duration::ZERO, &settings), u32::MAX);
    }

    #[test]
    fn the_message_is_the_kubelets() {
        let text = message(Duration::from_secs(160), "c", "default", "web", "u-1");
        assert_eq!(text, "back-off 2m40s restarting failed container=c pod=web_default(u-1)");
        for (ms, text) in [
            (0, "0s"),
            (10_000, "10s"),
            (300_000, "5m0s"),
            (1_500, "1.5s"),
            (20, "20ms"),
            (3_600_000, "1h0m0s"),
        ] {
            assert_eq!(go(Duration::from_millis(ms)), text);
        }
    }
}
