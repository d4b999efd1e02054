//! Measures how long pods wait for their cgroups. Printed by
//! `cargo test --release -p nodewarden-hierarchy speed -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use super::fixture::{Fixture, keep, pod};

#[test]
#[ignore = "a measurement: run it in release mode"]
fn time_from_update_to_cgroup() {
    let Some(f) = Fixture::make("speed") else { return };
    let hundred: Vec<_> = (0..100).map(|i| pod(&format!("old{i}"), "100m")).collect();
    let started = Instant::now();
    let hierarchy = f.start(keep(&hundred));
    println!("start with 100 pods: {:?}", started.elapsed());
    let sink = hierarchy.handle();
    let mut places = hierarchy.pod_cgroups();
    let mut wait = |uid: &str, there: bool| {
        while places.borrow_and_update().contains_key(uid) != there {
            f.runtime.block_on(places.changed()).unwrap();
        }
    };

    let (mut made, mut gone) = (Vec::new(), Vec::new());
    for i in 0..50 {
        let uid = format!("new{i}");
        let mut pods = hundred.clone();
        pods.push(pod(&uid, "250m"));
        let started = Instant::now();
        sink.send(keep(&pods));
        wait(&uid, true);
        made.push(started.elapsed());
        let started = Instant::now();
        sink.send(keep(&hundred));
        wait(&uid, false);
        gone.push(started.elapsed());
    }
    show("one more than 100", &mut made);
    show("one less again", &mut gone);

    let mut both = hundred.clone();
    both.extend((0..100).map(|i| pod(&format!("burst{i}"), "10m")));
    let started = Instant::now();
    sink.send(keep(&both));
    wait("burst0", true);
    let first = started.elapsed();
    (0..100).for_each(|i| wait(&format!("burst{i}"), true));
    println!("100 more at once: the first after {first:?}, all after {:?}", started.elapsed());
    let started = Instant::now();
    sink.send(keep(&hundred));
    (0..100).for_each(|i| wait(&format!("burst{i}"), false));
    println!("100 less at once: {:?}", started.elapsed());

    std::thread::sleep(Duration::from_millis(200));
    let (before, started) = (own_cpu(), Instant::now());
    for _ in 0..10 {
        sink.volumes_changed();
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = started;
    println!("reconciling without a change 10 times: {:?} of CPU", own_cpu() - before);
}

fn show(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    println!("{what}: p50 {:?}, slowest {:?}", times[times.len() / 2], times[times.len() - 1]);
}

fn own_cpu() -> Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let of =
        |t: nix::sys::time::TimeVal| Duration::from_micros((t.tv_sec() * 1_000_000 + t.tv_usec()) as u64);
    of(usage.user_time()) + of(usage.system_time())
}
