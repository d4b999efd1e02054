//! How fast the agent writes to the API server when many pods start at once: `kubeAPIQPS`, `kubeAPIBurst`,
//! `eventRecordQPS` and `eventBurst`. Runtime and API server are stand-ins, which are faster than these
//! rates.

use std::time::{Duration, Instant};

use serde_json::json;

use super::fixture::CONTAINERS;
use crate::e2e::newer_api::fixture::{NODE, condition, lines, managed, wait_registered};
use crate::e2e::support::eventually;
use crate::ensure;
use crate::fixture::{PAUSE_IMAGE, RuntimeFaults, StandInApi, StandInRuntime, parse_samples};
use crate::harness::{Context, Failure, REPORTED, Test};

pub const TESTS: &[Test] =
    &[Test::new("stand_in_api_rates", rates).timeout(120).in_parallel().needs(super::NEEDS)];

const PODS: usize = 12;
/// Events of each container: its image is there, it is created, it is started.
const EVENTS: usize = 3;
/// `eventRecordQPS` and `eventBurst`.
const OF_EVENTS: Rate = Rate { per_second: 10, burst: 6 };
/// `kubeAPIQPS` and `kubeAPIBurst`.
const OF_STATUSES: Rate = Rate { per_second: 4, burst: 3 };
/// How much later than it was sent a request may arrive.
const LATE: Duration = Duration::from_millis(500);

/// So many requests a second, and so many at once after a pause.
#[derive(Debug, Clone, Copy)]
struct Rate {
    per_second: u32,
    burst: u32,
}

impl Rate {
    /// The most requests that may arrive within this time.
    fn most(self, time: Duration) -> f64 {
        f64::from(self.burst) + f64::from(self.per_second) * (time + LATE).as_secs_f64()
    }

    /// Fails if more requests arrived within any time than may. `times` are in order.
    fn check(self, what: &str, times: &[Instant]) -> Result<(), Failure> {
        for (first, begun) in times.iter().enumerate() {
            for (last, ended) in times.iter().enumerate().skip(first) {
                let (count, time) = (last - first + 1, *ended - *begun);
                let most = self.most(time);
                ensure!(count as f64 <= most, "{count} {what} in {time:?}, where {self:?} allows {most:.1}");
            }
        }
        Ok(())
    }
}

/// Both rates hold in every interval while pods start, more would be written without them, and all events and
/// statuses are written in the end. What keeps the node ready does not wait for them.
fn rates(context: &Context) -> Result<(), Failure> {
    let api = StandInApi::start().map_err(Failure::file("the stand-in API server"))?;
    let runtime = StandInRuntime::start(context, "rates", RuntimeFaults::default())?;
    let kubelet = format!(
        "{}eventRecordQPS: {}\neventBurst: {}\nkubeAPIQPS: {}\nkubeAPIBurst: {}\n",
        lines(context)?,
        OF_EVENTS.per_second,
        OF_EVENTS.burst,
        OF_STATUSES.per_second,
        OF_STATUSES.burst,
    );
    let managed = managed(context, &api, runtime.socket(), &kubelet)?;
    let agent = managed.start()?;
    wait_registered(context, &api)?;
    // The node's own events are written.
    std::thread::sleep(Duration::from_secs(2));
    let begun = Instant::now();
    for number in 0..PODS {
        let container = |number: usize| json!({ "name": format!("c{number}"), "image": PAUSE_IMAGE, "imagePullPolicy": "Never" });
        let containers: Vec<_> = (0..CONTAINERS).map(container).collect();
        let spec = json!({
            "hostNetwork": true, "terminationGracePeriodSeconds": 1, "containers": containers,
        });
        let name = format!("pod-{number:02}");
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec });
        api.create_pod(NODE, pod);
    }
    let all = (PODS * CONTAINERS) as u64;
    let up = runtime.wait_until(context.patiently(30), "all containers run", |notes| notes.running >= all)?;
    let wanted = PODS * CONTAINERS * EVENTS;
    let count = |event: &serde_json::Value| event["count"].as_u64().unwrap_or(1) as usize;
    eventually(context.patiently(60), "not all events and statuses are written", || {
        let events = api.events();
        let of_pods = events.iter().filter(|event| event["involvedObject"]["kind"] == "Pod");
        let ready = (0..PODS).filter(|number| {
            let pod = api.pod(&format!("pod-{number:02}"));
            pod.is_some_and(|pod| condition(&pod, "Ready")["status"] == "True")
        });
        Ok((of_pods.map(count).sum::<usize>() >= wanted && ready.count() == PODS).then_some(()))
    })?;
    let since = |times: Vec<Instant>| times.into_iter().filter(|at| *at >= begun).collect::<Vec<_>>();
    let statuses = since(api.arrived("PATCH /api/v1/namespaces/default/pods/", "/status"));
    let mut events = since(api.arrived("POST /api/v1/namespaces/default/events", ""));
    events.extend(since(api.arrived("PATCH /api/v1/namespaces/default/events/", "")));
    events.sort();
    for (what, rate, times) in [("events", OF_EVENTS, &events), ("statuses", OF_STATUSES, &statuses)] {
        rate.check(what, times)?;
        let took = times.last().map_or(Duration::ZERO, |last| *last - begun);
        println!(
            "{REPORTED}{} {what} in {:.1} s, pods up after {:.1} s",
            times.len(),
            took.as_secs_f64(),
            (up - begun).as_secs_f64()
        );
        // Otherwise the rates were not needed, and nothing is known of them.
        let least = times.len() as f64 - f64::from(rate.burst) - 1.0;
        ensure!(
            least / f64::from(rate.per_second) > (up - begun).as_secs_f64(),
            "there was no flood of {what}: {} while pods started for {:?}",
            times.len(),
            up - begun
        );
    }
    let metrics = agent.get("/metrics")?.text();
    let lost = parse_samples(&metrics).into_iter().filter(|own| {
        own.name == "nodewarden_kube_events_total" && own.labels.get("result").is_some_and(|r| r != "written")
    });
    let lost: f64 = lost.map(|own| own.value).sum();
    ensure!(lost == 0.0, "{lost} events were not written");
    for number in 0..PODS {
        api.delete_pod(&format!("pod-{number:02}"), 1);
    }
    runtime.wait_until(context.patiently(30), "all pods gone", |notes| notes.sandboxes == 0)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_broken_by_any_interval() {
        let rate = Rate { per_second: 10, burst: 3 };
        let begun = Instant::now();
        let at = |millis: &[u64]| -> Vec<Instant> {
            millis.iter().map(|millis| begun + Duration::from_millis(*millis)).collect()
        };
        // A burst of 3, and 5 that were late.
        assert!(rate.check("requests", &at(&[0; 8])).is_ok());
        assert!(rate.check("requests", &at(&[0; 9])).is_err());
        assert!(
            rate.check("requests", &at(&[0, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000])).is_err()
        );
        let every = |millis: u64| at(&(0..100).map(|number| number * millis).collect::<Vec<_>>());
        assert!(rate.check("requests", &every(100)).is_ok());
        assert!(rate.check("requests", &every(50)).is_err());
    }
}
