//! What the container runtime and containers write: logs, streamed output, answers over CRI, redirects of
//! probed servers.

use std::time::Instant;

use nodewarden_cri::fuzzing::{self, Received};
use nodewarden_cri::logs::{Entry, Selection};
use nodewarden_cri::{Condition, ListedSandbox, Listing, Table, image_reference};
use nodewarden_proto::runtime::v1 as cri;
use prost::Message;

use crate::text;

/// A container's log: the limit of bytes holds, and the last lines begin at the same place from both ends of
/// the file.
pub fn log(input: &[u8]) {
    const LIMIT: u64 = 100;
    let mut limited = Selection::new(None, true, Some(LIMIT));
    let mut whole = Selection::default();
    let (mut few, mut all, mut expected) = (Vec::new(), Vec::new(), 0);
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        let Some(entry) = Entry::parse(line) else { continue };
        assert!(!entry.text.contains(&b'\n'));
        expected += entry.text.len() + usize::from(!entry.partial);
        let _ = whole.take(&entry, &mut all);
        if !limited.is_exhausted() {
            let _ = limited.take(&entry, &mut few);
        }
    }
    assert_eq!(all.iter().map(|piece| piece.bytes.len()).sum::<usize>(), expected);
    assert!(few.iter().map(|piece| piece.bytes.len() as u64).sum::<u64>() <= LIMIT);
    for wanted in [1, 3] {
        let [backwards, forwards] = fuzzing::last_lines(input, wanted).expect("a file in memory");
        assert_eq!(backwards, forwards, "the last {wanted} lines");
    }
}

/// A connection over SPDY to the runtime's streaming server.
pub fn spdy(input: &[u8]) {
    bounded(&fuzzing::spdy(input), input);
}

/// A connection over WebSocket to the runtime's streaming server.
pub fn websocket(input: &[u8]) {
    bounded(&fuzzing::websocket(input), input);
}

/// The output is no more than was sent.
fn bounded(received: &Received, input: &[u8]) {
    let output: usize = received.output.iter().map(|piece| piece.bytes.len()).sum();
    assert!(output <= input.len(), "{received:?}");
}

/// An answer of the runtime. The first byte says which.
pub fn cri(input: &[u8]) {
    let Some((which, input)) = input.split_first() else { return };
    match which % 6 {
        0 => {
            let read = fuzzing::sandboxes(input);
            let answer = decoded::<cri::ListPodSandboxResponse>(input);
            let sent = answer.map(|answer| answer.items.into_iter().map(Into::into).collect());
            assert_eq!(read, sent);
            list(Listing { sandboxes: read.unwrap_or_default(), containers: Vec::new() });
        }
        1 => {
            let read = fuzzing::containers(input);
            let answer = decoded::<cri::ListContainersResponse>(input);
            let sent = answer.map(|answer| answer.containers.into_iter().map(Into::into).collect());
            assert_eq!(read, sent);
            list(Listing { sandboxes: Vec::new(), containers: read.unwrap_or_default() });
        }
        2 => {
            let Some(answer) = decoded::<cri::ContainerStatusResponse>(input) else { return };
            let statuses = [answer.status.unwrap_or_default()];
            nodewarden_lifecycle::fuzzing::observed(&Listing::default(), &statuses, &[]);
            for info in answer.info.values() {
                let _ = fuzzing::oci_devices(info);
            }
        }
        3 => {
            let Some(answer) = decoded::<cri::PodSandboxStatusResponse>(input) else { return };
            let listing = Listing { sandboxes: vec![ListedSandbox::default()], containers: Vec::new() };
            nodewarden_lifecycle::fuzzing::observed(&listing, &[], &[answer.status.unwrap_or_default()]);
        }
        4 => {
            let Some(answer) = decoded::<cri::StatusResponse>(input) else { return };
            for condition in answer.status.unwrap_or_default().conditions {
                assert!(!Condition::from(condition).to_string().is_empty());
            }
        }
        _ => {
            let Some(text) = text(input) else { return };
            let _ = (fuzzing::oci_devices(text), fuzzing::server(text));
            if image_reference::is_valid(text) {
                let name = image_reference::normalized(text);
                assert_eq!(image_reference::normalized(&name), name, "{text:?}");
            }
        }
    }
}

fn decoded<M: Message + Default + PartialEq>(input: &[u8]) -> Option<M> {
    let message = M::decode(input).ok()?;
    let again = M::decode(message.encode_to_vec().as_slice());
    assert!(again.is_ok_and(|again| again == message));
    Some(message)
}

fn list(listing: Listing) {
    let now = Instant::now();
    let mut table = Table::default();
    table.learn(&listing, now);
    nodewarden_lifecycle::fuzzing::observed(&listing, &[], &[]);
    for sandbox in &listing.sandboxes {
        assert!(sandbox.id.is_empty() || table.is_sandbox(&sandbox.id));
    }
    for container in &listing.containers {
        assert!(container.id.is_empty() || table.container(&container.id).is_some());
    }
}

/// `Location` headers of a probed server, one a line: they never lead to another host.
pub fn redirect(input: &[u8]) {
    let Some(text) = text(input) else { return };
    for host in ["10.0.0.1", "fd00::1"] {
        let authority = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        for url in nodewarden_pods::fuzzing::redirects(host, text.lines().take(10)) {
            let rest = url.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
            let rest = rest.strip_prefix(&authority).unwrap_or_else(|| panic!("{url:?}"));
            assert!(rest.starts_with(['/', ':']), "{url:?}");
            assert!(!url.contains(|c: char| c.is_ascii_control() || c == ' '), "{url:?}");
        }
    }
}
