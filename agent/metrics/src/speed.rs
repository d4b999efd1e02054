//! Measures the time that encoding takes. Run with
//! `cargo test --release -p nodewarden-metrics speed -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use super::exposition::Exposition;
use super::{cadvisor, fixture, own, resource};

/// Median and maximum duration of the runs, and the document's size in bytes.
fn measure(write: impl Fn(&mut Exposition<'_>)) -> (Duration, Duration, usize) {
    let mut bytes = 0;
    let mut times: Vec<Duration> = (0..101)
        .map(|_| {
            bytes = 0;
            let mut spill = |chunk: &mut Vec<u8>| bytes += chunk.len();
            let start = Instant::now();
            let mut exposition = Exposition::new(&mut spill);
            write(&mut exposition);
            exposition.finish();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1], bytes)
}

#[test]
#[ignore = "a measurement: run it in release mode"]
fn encoding() {
    for pods in [100, 500] {
        let (snapshot, status) = (fixture::snapshot(pods), fixture::status());
        let (devices, probes) = (fixture::devices(), fixture::probes());
        let shown = own::Shown {
            snapshot: &snapshot,
            status: &status,
            pods: &[],
            devices: &devices,
            exclusive_cpus: &nodewarden_model::ExclusiveCpusView::default(),
            probes: &probes,
            images: None,
            pressure: None,
        };
        for (name, (median, slowest, bytes)) in [
            ("/metrics/cadvisor", measure(|e| cadvisor::write(e, &snapshot))),
            ("/metrics/resource", measure(|e| resource::write(e, &snapshot))),
            ("/metrics", measure(|e| own::write(e, shown))),
        ] {
            println!(
                "{pods} pods ({} cgroups) {name}: {bytes} bytes, median {median:?}, slowest {slowest:?}",
                snapshot.groups.len()
            );
        }
    }
}
