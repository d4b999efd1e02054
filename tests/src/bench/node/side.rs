//! One kind of node with its pods, as they are seen at the API server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::pods;
use crate::e2e::cluster::fixture::{ClusterFixture, condition};
use crate::e2e::cluster::node::NodeKind;
use crate::e2e::cluster::options::{NodeOptions, Prepared};
use crate::ensure;
use crate::fixture::{Api, ApiError, Change, Cluster, Watch};
use crate::harness::{Context, Failure};

/// How many requests are made to the API server at a time for many pods.
const AT_ONCE: usize = 8;
/// Pause after a start and after an end, so that no work of it remains.
const PAUSE: Duration = Duration::from_millis(1500);
/// Limits in seconds for one pod and for many.
const ONE: u64 = 60;
const MANY: u64 = 400;
/// The same for both kinds: the kubelet of 1.20 has 5 requests a second by default.
const RATES: &str = "kubeAPIQPS: 50\nkubeAPIBurst: 100\neventRecordQPS: 50\neventBurst: 100\n";

pub struct Side<'c> {
    watch: Watch,
    api: Api,
    fixture: ClusterFixture<'c>,
    context: &'c Context,
    /// The pods' path at the API server.
    path: String,
}

impl<'c> Side<'c> {
    /// Starts a node of this kind, and waits until it is ready.
    pub fn start(context: &'c Context, cluster: &Cluster, kind: NodeKind) -> Result<Self, Failure> {
        let suffix = format!("-{}", kind.name());
        let options =
            NodeOptions { kind: Some(kind), suffix, lines: RATES.to_owned(), ..NodeOptions::default() };
        let fixture = Prepared::of(context, cluster.clone(), None).start(options)?;
        let api = Api::new(cluster)?;
        let path = format!("/api/v1/namespaces/{}/pods", fixture.namespace());
        Ok(Self { watch: Watch::start(&api, &path), api, fixture, context, path })
    }

    pub fn fixture(&self) -> &ClusterFixture<'c> {
        &self.fixture
    }

    /// Starts and ends one pod after the other. Returns the milliseconds until each was ready and gone.
    pub fn one_at_a_time(&mut self, rounds: usize) -> Result<(Vec<f64>, Vec<f64>), Failure> {
        let (mut ready, mut gone) = (Vec::new(), Vec::new());
        // The first round is a warm-up.
        for number in 0..=rounds {
            let name = format!("one-{number}");
            let pod = pods::idle(&name, self.fixture.name());
            let up = self.create(&[pod], ONE)?;
            std::thread::sleep(PAUSE);
            let down = self.delete(&[name], ONE)?;
            std::thread::sleep(PAUSE);
            if number > 0 {
                ready.push(up.as_secs_f64() * 1e3);
                gone.push(down.as_secs_f64() * 1e3);
            }
        }
        Ok((ready, gone))
    }

    /// Creates so many pods at once. Returns the seconds until all were ready.
    pub fn create_many(&mut self, pods: usize) -> Result<f64, Failure> {
        let pods: Vec<_> = names(pods).iter().map(|name| pods::idle(name, self.fixture.name())).collect();
        Ok(self.create(&pods, MANY)?.as_secs_f64())
    }

    /// Deletes them at once. Returns the seconds until all were gone.
    pub fn delete_many(&mut self, pods: usize) -> Result<f64, Failure> {
        Ok(self.delete(&names(pods), MANY)?.as_secs_f64())
    }

    /// Creates pods. Returns the time until all of them were ready.
    pub fn create(&mut self, pods: &[Value], seconds: u64) -> Result<Duration, Failure> {
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let path = self.path.clone();
        let begun = Instant::now();
        self.for_each(pods, |api, pod| api.create(&path, pod))?;
        let names = pods.iter().map(name).collect();
        let last = self.wait(names, "ready", seconds, |change| {
            change.kind != "DELETED" && condition(&change.object, "Ready") == Some("True")
        })?;
        Ok(last.saturating_duration_since(begun))
    }

    /// Deletes pods. Returns the time until none of them was there.
    pub fn delete(&mut self, names: &[String], seconds: u64) -> Result<Duration, Failure> {
        let path = self.path.clone();
        let begun = Instant::now();
        self.for_each(names, |api, name| api.delete(&format!("{path}/{name}")))?;
        let last =
            self.wait(names.iter().cloned().collect(), "gone", seconds, |change| change.kind == "DELETED")?;
        Ok(last.saturating_duration_since(begun))
    }

    /// The next change of a pod, or `None` if there is none within a minute.
    pub fn next_change(&self) -> Option<Change> {
        self.watch.next_until(Instant::now() + self.context.patiently(ONE))
    }

    pub fn finish(self) -> Result<(), Failure> {
        let Self { watch, fixture, .. } = self;
        drop(watch);
        fixture.finish()
    }

    /// Makes a request for each, several at a time if there are many.
    fn for_each<T: Sync>(
        &mut self,
        all: &[T],
        request: impl Fn(&mut Api, &T) -> Result<Value, ApiError> + Sync,
    ) -> Result<(), Failure> {
        if let [one] = all {
            request(&mut self.api, one)?;
            return Ok(());
        }
        let (api, request) = (&self.api, &request);
        let done: Vec<Result<(), ApiError>> = std::thread::scope(|scope| {
            let share = all.len().div_ceil(AT_ONCE).max(1);
            let threads: Vec<_> = all
                .chunks(share)
                .map(|some| {
                    let mut api = api.another();
                    scope.spawn(move || some.iter().try_for_each(|one| request(&mut api, one).map(drop)))
                })
                .collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        ensure!(done.len() == all.chunks(all.len().div_ceil(AT_ONCE).max(1)).len(), "a thread panicked");
        Ok(done.into_iter().collect::<Result<(), _>>()?)
    }

    /// Waits until `holds` was true of each of these pods. Returns when it became true of the last one.
    fn wait(
        &self,
        mut names: BTreeSet<String>,
        what: &str,
        seconds: u64,
        holds: impl Fn(&Change) -> bool,
    ) -> Result<Instant, Failure> {
        let deadline = Instant::now() + self.context.patiently(seconds);
        let mut last = Instant::now();
        while !names.is_empty() {
            let Some(change) = self.watch.next_until(deadline) else {
                let (count, some) = (names.len(), names.iter().take(3).cloned().collect::<Vec<_>>());
                let text = format!("{count} pods are not {what} after {seconds} s: {}", some.join(", "));
                return Err(Failure::Unexpected(text));
            };
            let name = change.object["metadata"]["name"].as_str().unwrap_or_default();
            if holds(&change) && names.remove(name) {
                last = change.at;
            }
        }
        Ok(last)
    }
}

fn names(pods: usize) -> Vec<String> {
    (0..pods).map(|number| format!("many-{number:03}")).collect()
}
