//! The kernel's sockets of connections to a server.

use std::fs;
use std::time::{Duration, Instant};

/// TCP states of `/proc/net/tcp` (include/net/tcp_states.h).
const TIME_WAIT: u8 = 6;
const LISTEN: u8 = 10;

/// States of the sockets with this port at either end, except the listening one.
fn states(port: u16) -> Vec<u8> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let end = format!(":{port:04X}");
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    lines
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let ours = fields[1].ends_with(&end) || fields[2].ends_with(&end);
            let state = u8::from_str_radix(fields[3], 16).expect("a state");
            (ours && state != LISTEN).then_some(state)
        })
        .collect()
}

/// Waits until no socket is left; none may ever be in TIME_WAIT.
pub(super) async fn nothing_is_left(port: u16) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let states = states(port);
        assert!(!states.contains(&TIME_WAIT), "{states:?}");
        if states.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{states:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
