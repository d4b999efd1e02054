//! Probes of servers that run in the test itself, on the loopback interface.

mod containerd;
mod exec;
mod grpc;
mod http;
mod sockets;
mod tcp;

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;

use super::*;
use nodewarden_manifest::ProbeKind;

fn target(address: Option<&str>) -> Target {
    Target {
        uid: "u".into(),
        namespace: "ns".into(),
        pod: "p".into(),
        container: "c".into(),
        container_id: "id".into(),
        started: Timestamp::UNIX_EPOCH,
        address: address.map(|address| address.parse::<IpAddr>().expect("an address")),
    }
}

fn spec(handler: ProbeHandler, timeout: Duration) -> ProbeSpec {
    ProbeSpec {
        kind: ProbeKind::Readiness,
        handler,
        initial_delay: Duration::ZERO,
        timeout,
        period: Duration::from_secs(10),
        success_threshold: 1,
        failure_threshold: 3,
        grace: None,
    }
}

fn answer(outcome: Outcome, output: impl Into<String>) -> Answer {
    Answer { outcome, output: output.into() }
}

#[test]
fn outputs_are_cut() {
    assert_eq!(success(b"a\xffb"), answer(Outcome::Success, "a\u{fffd}b"));
    let long = "x".repeat(LONGEST_OUTPUT);
    assert_eq!(failure(format!("{long}y").as_bytes()), answer(Outcome::Failure, &long));
    // Characters are not cut in the middle.
    for bytes in ["ä".repeat(LONGEST_OUTPUT).into_bytes(), vec![0xff; LONGEST_OUTPUT]] {
        let output = success(&bytes).output;
        assert!((LONGEST_OUTPUT - 3..=LONGEST_OUTPUT).contains(&output.len()), "{}", output.len());
    }
}
