use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use super::*;

/// As the agent's, with as many blocking threads as the purposes need.
fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(threads())
        .enable_all()
        .build()
        .unwrap()
}

/// Work that does not return before the sender is dropped.
fn hangs() -> (mpsc::Sender<()>, impl FnOnce() + Send + 'static) {
    let (release, held) = mpsc::channel::<()>();
    (release, move || _ = held.recv())
}

fn of(places: &[&str]) -> BTreeSet<String> {
    places.iter().map(|place| (*place).to_owned()).collect()
}

#[test]
fn a_purpose_whose_work_never_returns_delays_no_other() {
    static HUNG: Purpose = Purpose::new("hung", 3);
    static OTHER: Purpose = Purpose::new("other", 1);
    let runtime = runtime();
    let mut held = Vec::new();
    for _ in 0..10 {
        let (release, work) = hangs();
        held.push(release);
        HUNG.start(runtime.handle(), work);
    }
    let waiting = runtime.spawn(HUNG.run(|| 1));
    let begun = Instant::now();
    let other = async { tokio::time::timeout(Duration::from_secs(20), OTHER.run(|| 2)).await };
    let other = runtime.block_on(other).expect("the other purpose has a thread of its own");
    assert_eq!(other.unwrap(), 2);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!((HUNG.busy(), waiting.is_finished()), (3, false), "ten are asked for, three have a thread");
    drop(held);
    assert_eq!(runtime.block_on(waiting).unwrap().unwrap(), 1, "it has its turn once the others are done");
}

#[test]
fn work_in_place_holds_up_no_other_task() {
    static ONE: Purpose = Purpose::new("in place", 1);
    let runtime = runtime();
    let (sender, receiver) = mpsc::channel();
    let (began, begun) = mpsc::channel();
    let working = runtime.spawn(ONE.run_in_place(move || {
        began.send(()).unwrap();
        receiver.recv_timeout(Duration::from_secs(20))
    }));
    begun.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(ONE.busy(), 1);
    // The runtime has one thread for tasks, and the work occupies the one that it had.
    runtime.block_on(runtime.spawn(async move { sender.send(7).unwrap() })).unwrap();
    assert_eq!(runtime.block_on(working).unwrap(), Ok(Ok(7)));
    let panics = runtime.spawn(ONE.run_in_place(|| -> u8 { panic!("planted") }));
    assert_eq!(runtime.block_on(panics).unwrap(), Err(Panicked));
    assert_eq!(ONE.busy(), 0, "its place is free again");
}

#[test]
fn every_purpose_can_have_all_its_threads_at_a_time() {
    let runtime = runtime();
    let mut held = Vec::new();
    for purpose in ALL {
        for _ in 0..purpose.bound() + 1 {
            let (release, work) = hangs();
            held.push(release);
            // All but the last one of each occupy a thread.
            purpose.start(runtime.handle(), work);
        }
    }
    let done = runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(5), tokio::task::spawn_blocking(|| ())).await
    });
    assert!(done.is_ok(), "libraries still find a thread");
    assert!(ALL.iter().all(|purpose| purpose.busy() == purpose.bound()));
    drop(held);
}

#[test]
fn work_that_panics_gives_its_thread_back() {
    static ONE: Purpose = Purpose::new("one", 1);
    let runtime = runtime();
    assert!(runtime.block_on(ONE.run(|| panic!("planted"))).unwrap_err().is_panic());
    assert_eq!(runtime.block_on(ONE.run(|| 3)).unwrap(), 3);
}

#[test]
fn a_place_that_hangs_occupies_a_few_threads_and_other_places_answer() {
    static MANY: Purpose = Purpose::new("many", 16);
    let (runtime, places) = (runtime(), Places::new(&MANY, 2));
    let limit = Duration::from_millis(100);
    let mut held = Vec::new();
    let errors: Vec<_> = (0..5)
        .map(|_| {
            let (release, work) = hangs();
            held.push(release);
            runtime.block_on(places.run(of(&["/mnt/nfs"]), limit, work)).unwrap_err()
        })
        .collect();
    let expected = NotAnswering { place: "/mnt/nfs".into(), limit };
    assert!(errors.iter().all(|error| *error == expected), "{errors:?}");
    assert_eq!(MANY.busy(), 2, "only the first two calls are at the place");
    assert_eq!(runtime.block_on(places.run(of(&["/"]), limit, || 7)), Ok(Some(7)));
    let both = places.run(of(&["/", "/mnt/nfs"]), limit, || 8);
    assert_eq!(runtime.block_on(both).unwrap_err().place, "/, /mnt/nfs");
    assert_eq!(
        runtime.block_on(places.run(of(&["/"]), limit, || 9)),
        Ok(Some(9)),
        "the other place is free again"
    );
    drop(held);
    let begun = Instant::now();
    while runtime.block_on(places.run(of(&["/mnt/nfs"]), limit, || ())).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5), "it answers again");
    }
    assert_eq!(runtime.block_on(places.run(of(&["/srv"]), limit, || 1)), Ok(Some(1)));
    assert!(places.used.lock().len() <= 2, "places without work are forgotten: {:?}", places.used);
}

#[test]
fn the_message_names_the_place_and_the_time() {
    let error = NotAnswering { place: "/mnt/nfs".into(), limit: Duration::from_secs(10) };
    assert_eq!(error.to_string(), "/mnt/nfs is not answering: no result after 10 s");
}
