//! The lines of `nodewarden explain POD` about limits: those whose cgroup files another program wrote, past
//! the kubelet.

use std::collections::VecDeque;
use std::fmt::Write as _;

use nodewarden_augment::incident::reason;
use nodewarden_model::{Detail, Event, EventType};
use nodewarden_proto::nodewarden::v1::WatchEventsRequest;
use tonic::transport::Channel;

use super::printable;
use crate::cli::format::time;
use crate::cli::{CliError, client};
use nodewarden_api::grpc::event;

/// So many changes are shown, the newest.
const SHOWN: usize = 3;

/// The newest changes in the agent's journal, one a line; empty if there are none.
///
/// # Errors
/// The agent does not answer.
pub async fn of_pod(pod: &str, channel: Channel) -> Result<String, CliError> {
    let request = WatchEventsRequest {
        pod: pod.to_owned(),
        types: vec![EventType::Pod.name().to_owned()],
        no_follow: true,
        ..WatchEventsRequest::default()
    };
    let asked = client::service(channel).watch_events(request).await;
    let mut stream = asked.map_err(CliError::call("WatchEvents"))?.into_inner();
    let mut newest = VecDeque::new();
    while let Some(message) = stream.message().await.map_err(CliError::call("WatchEvents"))? {
        // One that a newer agent writes otherwise is left out.
        if let Some(line) = message.event.and_then(|own| line(&event::from_proto(own).ok()?)) {
            newest.push_back(line);
            if newest.len() > SHOWN {
                newest.pop_front();
            }
        }
    }
    Ok(newest.into_iter().collect())
}

/// The line of a changed limit; `None` for other events. Pure.
fn line(event: &Event) -> Option<String> {
    let Detail::Pod { reason, message } = &event.detail else { return None };
    let mut out = String::new();
    if reason == reason::LIMIT {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", printable(&format!("{}: {message}", time(event.time))));
    }
    Some(out).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn only_changed_limits_are_shown() {
        let event = |reason: &str| Event {
            seq: 1,
            time: Timestamp::UNIX_EPOCH,
            cgroup: String::new(),
            pod: None,
            detail: Detail::Pod { reason: reason.into(), message: "memory.max was\n1".into() },
        };
        let shown = line(&event(reason::LIMIT)).unwrap();
        assert!(shown.ends_with('\n') && shown.matches('\n').count() == 1, "{shown:?}");
        assert!(shown.contains(": memory.max was"), "{shown:?}");
        assert_eq!(line(&event("Started")), None);
        assert_eq!(line(&Event { detail: Detail::CgroupCreated {}, ..event("") }), None);
    }
}
