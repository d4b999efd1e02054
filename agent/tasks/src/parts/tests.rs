use std::thread;
use std::time::Duration;

use super::*;

const LIMIT: Duration = Duration::from_secs(60);

fn problem(parts: &Parts, name: &str) -> Option<String> {
    parts.health().into_iter().find(|one| one.part == name).and_then(|one| one.problem)
}

#[test]
fn only_work_without_progress_is_a_standstill() {
    let limit = Duration::from_secs(60);
    for (state, now, expected) in [
        (WAITS, u64::MAX - 1, None),
        (0, 60_000, None),
        (0, 60_999, Some("no progress for 60 s (at most 60 s)")),
        (5_000, 70_000, Some("no progress for 65 s (at most 60 s)")),
        // Another thread has stored it since the clock was read.
        (70_001, 70_000, None),
    ] {
        assert_eq!(standstill(state, now, limit).as_deref(), expected, "{state} {now}");
    }
}

#[tokio::test]
async fn a_panic_of_a_part_is_reported_with_its_name_and_text() {
    keep_panic_texts();
    let parts = Parts::default();
    let (part, other) = (parts.register("eviction", LIMIT), parts.register("upkeep", LIMIT));
    let thread = thread::spawn(move || {
        let _part = part;
        panic!("planted");
    });
    let ended = tokio::time::timeout(Duration::from_secs(5), parts.ended()).await.unwrap();
    assert!(thread.join().is_err());
    assert!(ended.to_string().starts_with("eviction panicked: planted ("), "{ended}");
    assert!(problem(&parts, "eviction").unwrap().starts_with("panicked: planted"));
    assert_eq!(problem(&parts, "upkeep"), None);
    drop(other);
    assert_eq!(parts.ended().await, ended, "the first one is the reason");
    assert_eq!(problem(&parts, "upkeep").unwrap(), "ended by itself");
}

#[tokio::test]
async fn a_task_that_panics_is_reported_too() {
    let parts = Parts::default();
    let task = tokio::spawn(parts.register("disks", LIMIT).task(async {
        tokio::task::yield_now().await;
        panic!("planted");
    }));
    assert!(tokio::time::timeout(Duration::from_secs(5), parts.ended()).await.unwrap().panic.is_some());
    assert!(task.await.is_err());
}

#[tokio::test]
async fn a_task_that_fails_has_ended_by_itself_and_one_that_returns_has_not() {
    let parts = Parts::default();
    parts.register("returns", LIMIT).fallible_task(async { Ok(()) }).await;
    assert_eq!(parts.health(), []);
    parts.register("fails", LIMIT).fallible_task(async { Err(Failed) }).await;
    let ended = tokio::time::timeout(Duration::from_secs(5), parts.ended()).await.unwrap();
    assert_eq!(ended.to_string(), "fails ended by itself");
    assert_eq!(problem(&parts, "fails").as_deref(), Some("ended by itself"));
}

#[tokio::test]
async fn an_end_that_was_asked_for_is_none() {
    let parts = Parts::default();
    parts.register("eviction", LIMIT).end();
    tokio::spawn(parts.register("short", LIMIT).task(async {})).await.unwrap();
    let aborted = tokio::spawn(parts.register("disks", LIMIT).task(std::future::pending()));
    tokio::task::yield_now().await;
    aborted.abort();
    assert!(aborted.await.is_err());
    assert!(tokio::time::timeout(Duration::from_millis(20), parts.ended()).await.is_err());
    assert_eq!(parts.health(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_blocks_its_thread_stands_still_and_one_that_waits_does_not() {
    let parts = Parts::default();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let waits = tokio::spawn(parts.register("waits", Duration::ZERO).task(std::future::pending()));
    let blocks = tokio::spawn(parts.register("blocks", Duration::ZERO).task(async move {
        let _ = held.recv();
    }));
    let reports = |pulse: Pulse| async move {
        pulse.progress();
        std::future::pending::<()>().await;
    };
    let hangs = tokio::spawn(parts.register("hangs", Duration::ZERO).task_with(reports));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(problem(&parts, "blocks").is_some() && problem(&parts, "hangs").is_some());
    assert_eq!(problem(&parts, "waits"), None);
    drop(release);
    blocks.await.unwrap();
    assert_eq!(problem(&parts, "blocks"), None);
    waits.abort();
    hangs.abort();
}

#[test]
fn a_part_that_stands_still_is_unhealthy_until_it_goes_on() {
    let parts = Parts::default();
    let part = parts.register("eviction", Duration::ZERO);
    let stuck = || {
        thread::sleep(Duration::from_millis(5));
        problem(&parts, "eviction").is_some()
    };
    assert!(stuck());
    part.waits();
    assert!(!stuck());
    part.progress();
    assert!(stuck());
    let second = parts.register("eviction", LIMIT);
    assert!(stuck(), "of two with one name the worse counts");
    second.end();
    part.end();
}
