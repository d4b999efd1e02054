//! Where an agent begins, and that nothing is lost between two of them.

use nodewarden_model::{Detail, PodRef};
use nodewarden_pods::status::PodStatusCache;
use nodewarden_storage::journal::{Journal, Limits};

use super::*;
use crate::events::{EventSender, Events, Settings};
use crate::objects::fixture::Script;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn an_agent_begins_where_the_earlier_one_ended_but_not_too_long_ago() {
    for (what, seq, time, begun, now, expected) in [
        ("the earlier one has just ended", 7, 9_990, 10_000, 10_001, 9_980),
        ("it has ended long ago", 7, 2_000, 10_000, 10_001, 6_401),
        ("this one is the first", 0, 10_000, 10_000, 10_001, 10_000),
        ("an earlier one has sent nothing", 0, 9_000, 10_000, 10_001, 9_000),
        ("the clock was set back", 7, 20_000, 10_000, 10_001, 10_000),
    ] {
        let earlier = Position { seq, time: at(time) };
        let beginning = Beginning { earlier, begun: at(begun) };
        assert_eq!(beginning.since(at(now)), at(expected), "{what}");
    }
}

#[test]
fn an_entry_is_wanted_once() {
    let beginning = Beginning { earlier: Position { seq: 7, time: at(9_990) }, begun: at(10_000) };
    for (what, seq, time, expected) in [
        ("sent by the earlier agent", 7, 9_990, false),
        ("sent before that", 5, 9_995, false),
        ("not sent", 8, 9_990, true),
        ("of this agent", 9, 10_002, true),
        ("of this agent, in another journal", 1, 10_002, true),
    ] {
        assert_eq!(beginning.wants(Position { seq, time: at(time) }), expected, "{what}");
    }
}

#[test]
fn the_newest_position_is_written_and_not_each_one() {
    let dir = tempfile::tempdir().unwrap();
    let written = || Sent::open(dir.path(), at(1)).0.last.seq;
    let (mut sent, problem) = Sent::open(dir.path(), at(1));
    assert_eq!(problem, None);
    let begun = Instant::now();
    for (seq, milliseconds, expected) in [(1, 5, 0), (2, 10, 0), (3, 1_100, 3), (4, 1_200, 3)] {
        sent.reached(Position { seq, time: at(1) }, begun + Duration::from_millis(milliseconds));
        sent.writer.settle().unwrap();
        assert_eq!(written(), expected, "after {milliseconds} ms");
    }
    sent.save(begun);
    sent.writer.settle().unwrap();
    assert_eq!(written(), 4);
}

/// An agent for a moment: what it appends to the journal, and how the API server answers.
async fn agent(dir: &Path, appends: Option<&str>, script: &Script, until: impl Fn() -> bool) {
    let begun = Timestamp::now();
    let journal = Journal::open(&dir.join("journal"), Limits::default()).unwrap();
    let (sent, problem) = Sent::open(dir, begun);
    assert_eq!(problem, None);
    let entries = journal.subscribe(Some(sent.beginning().since(begun)));
    let place =
        PodRef { uid: "u".into(), namespace: "shop".into(), name: "cart".into(), ..PodRef::default() };
    if let Some(reason) = appends {
        let detail = Detail::Pod { reason: reason.into(), message: reason.into() };
        journal.append(Timestamp::now(), "", Some(place), detail);
    }
    let (connection, pods) = (script.connection(), PodStatusCache::default());
    let sender = EventSender::new(connection, Events::default(), (entries, sent), pods, Settings::default());
    let running = tokio::spawn(sender.run());
    for _ in 0..500 {
        if until() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    journal.close();
}

#[tokio::test]
async fn events_of_an_outage_are_sent_by_the_next_agent_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let away = Script::default();
    agent(dir.path(), Some("Started"), &away, || away.requests().len() == 1).await;
    assert_eq!(away.requests().len(), 1, "it is not answered");
    let event = r#"{"metadata": {}, "involvedObject": {}}"#;
    let back = Script::default().then(201, event).then(201, event);
    let written = || Sent::open(dir.path(), Timestamp::now()).0.last.seq == 2;
    agent(dir.path(), Some("Killing"), &back, written).await;
    assert_eq!(back.requests().len(), 2, "that of the earlier agent, and its own: {:?}", back.requests());
    let again = Script::default();
    let begun = Instant::now();
    agent(dir.path(), None, &again, || begun.elapsed() > Duration::from_millis(300)).await;
    assert_eq!(again.requests(), [""; 0], "both are there already");
}
