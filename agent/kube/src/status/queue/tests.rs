use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn go(queue: &mut Queue, now: Instant) -> Option<String> {
    match queue.next(now) {
        Next::Go(uid) => Some(uid),
        Next::Wait(_) => None,
    }
}

#[test]
fn a_pod_has_one_request_at_a_time_and_what_changed_meanwhile_follows() {
    let (mut queue, now) = (Queue::new(2), Instant::now());
    for uid in ["a", "b", "c", "a"] {
        queue.mark(uid, now);
    }
    assert_eq!(
        (go(&mut queue, now), go(&mut queue, now), go(&mut queue, now)),
        (Some("a".into()), Some("b".into()), None)
    );
    queue.mark("a", now);
    queue.done("a", Outcome::Done, true, now);
    assert_eq!(go(&mut queue, now).as_deref(), Some("c"), "others that waited longer are first");
    queue.done("b", Outcome::Done, true, now);
    assert_eq!(go(&mut queue, now).as_deref(), Some("a"));
    queue.done("a", Outcome::Done, true, now);
    queue.done("c", Outcome::Done, true, now);
    assert!(queue.is_idle("a") && queue.next(now) == Next::Wait(None));
}

#[test]
fn a_refused_pod_waits_longer_each_time_and_holds_up_no_other() {
    let (mut queue, mut now) = (Queue::new(8), Instant::now());
    queue.mark("a", now);
    for wait in [1, 2, 4] {
        assert_eq!(go(&mut queue, now).as_deref(), Some("a"));
        queue.done("a", Outcome::Refused(None), true, now);
        queue.mark("a", now);
        queue.mark("b", now);
        assert_eq!(go(&mut queue, now).as_deref(), Some("b"));
        queue.done("b", Outcome::Done, true, now);
        assert_eq!(queue.next(now), Next::Wait(Some(now + wait * SECOND)));
        now += wait * SECOND;
    }
    assert_eq!(go(&mut queue, now).as_deref(), Some("a"));
    queue.done("a", Outcome::Refused(Some(7 * SECOND)), true, now);
    assert_eq!(queue.next(now), Next::Wait(Some(now + 7 * SECOND)), "as the server says");
}

#[test]
fn while_the_server_is_away_one_pod_asks_for_all() {
    let (mut queue, mut now) = (Queue::new(8), Instant::now());
    for uid in ["a", "b", "c"] {
        queue.mark(uid, now);
    }
    let all: Vec<_> = std::iter::from_fn(|| go(&mut queue, now)).collect();
    assert_eq!(all.len(), 3);
    all.iter().for_each(|uid| queue.done(uid, Outcome::Away, true, now));
    assert!(queue.is_away() && go(&mut queue, now).is_none());
    now += 5 * SECOND;
    let one = go(&mut queue, now).unwrap();
    assert_eq!(go(&mut queue, now), None);
    queue.done(&one, Outcome::Done, true, now);
    assert_eq!(std::iter::from_fn(|| go(&mut queue, now)).count(), 2, "then all");
}

#[test]
fn a_second_look_comes_later_unless_something_changes() {
    let (mut queue, now) = (Queue::new(8), Instant::now());
    queue.mark("a", now);
    go(&mut queue, now).unwrap();
    queue.done("a", Outcome::Later(10 * SECOND), false, now);
    assert_eq!(queue.next(now), Next::Wait(Some(now + 10 * SECOND)));
    queue.mark("a", now);
    assert_eq!(go(&mut queue, now).as_deref(), Some("a"));
    queue.done("a", Outcome::Later(10 * SECOND), false, now);
    queue.forget("a");
    assert!(queue.is_idle("a") && queue.next(now) == Next::Wait(None));
}

proptest! {
    /// Whatever happens, no pod has two requests at a time, no more run than may, and none is forgotten
    /// before it was done after its last change.
    #[test]
    fn no_change_is_lost(steps in proptest::collection::vec((0u8..6, 0usize..4), 1..200)) {
        let (mut queue, mut now) = (Queue::new(2), Instant::now());
        let mut dirty = [false; 4];
        let mut running: Vec<usize> = Vec::new();
        for (what, pod) in steps {
            match what {
                0 | 1 => {
                    queue.mark(&pod.to_string(), now);
                    dirty[pod] = true;
                }
                2 => now += SECOND,
                _ if running.is_empty() || what == 3 => {
                    if let Some(uid) = go(&mut queue, now) {
                        let pod: usize = uid.parse().unwrap();
                        prop_assert!(!running.contains(&pod) && running.len() < 2);
                        running.push(pod);
                        dirty[pod] = false;
                    }
                }
                _ => {
                    let pod = running.remove(0);
                    let outcome = [Outcome::Done, Outcome::Away][usize::from(what == 5)];
                    dirty[pod] |= outcome == Outcome::Away;
                    queue.done(&pod.to_string(), outcome, true, now);
                }
            }
        }
        for pod in running {
            queue.done(&pod.to_string(), Outcome::Done, true, now);
        }
        now += 3600 * SECOND;
        while let Some(uid) = go(&mut queue, now) {
            dirty[uid.parse::<usize>().unwrap()] = false;
            queue.done(&uid, Outcome::Done, true, now);
        }
        prop_assert_eq!(dirty, [false; 4]);
    }
}
