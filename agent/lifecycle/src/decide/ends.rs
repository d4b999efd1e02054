//! What is noted in a pod's [`Record`] when its containers are ended or have ended, and what follows from
//! that.

use jiff::Timestamp;

use super::observed::{ContainerSeen, Observed};
use super::plan::KillReason;
use super::{backoff, policy};
use crate::record::{ContainerRecord, Record};
use nodewarden_config::PodSettings;
use nodewarden_manifest::{Container, ContainerKind, Pod};
use nodewarden_model::{EndReason, Ended};

impl Record {
    /// To be saved before a container is ended for `reason`.
    pub fn note_kill(&mut self, name: &str, id: &str, reason: KillReason) {
        match reason {
            KillReason::Resize | KillReason::Changed | KillReason::Unknown => {
                self.containers.get_or_default(name).stopped = id.into();
            }
            KillReason::Liveness | KillReason::Startup => {
                let own = self.containers.get_or_default(name);
                id.clone_into(&mut own.probes.get_or_insert_default().ended);
            }
            KillReason::PostStart | KillReason::NotWanted | KillReason::PodEnds => {}
        }
    }

    /// Whether a running container's postStart hook is done, if it has one.
    pub fn hook_is_done(&self, pod: &Pod, seen: &ContainerSeen) -> bool {
        !policy::has_post_start(pod, &seen.name)
            || self.container(&seen.name).is_some_and(|own| own.hooked == seen.id)
    }

    /// Takes over how containers of the pod ended. Noting the same again changes nothing.
    ///
    /// Returns the ends that were news, in the order of their attempts.
    pub fn note_ends(
        &mut self,
        pod: &Pod,
        observed: &Observed,
        settings: &PodSettings,
    ) -> Vec<(String, Ended)> {
        let mut news = Vec::new();
        for container in pod.declared() {
            let mut ended: Vec<&ContainerSeen> = observed.ended(&container.name).collect();
            ended.sort_by_key(|seen| (seen.attempt, seen.created));
            for seen in ended {
                let own = self.containers.get_or_default(&container.name);
                if let Some(ended) = own.note_end(container.kind, seen, settings) {
                    news.push((container.name.clone(), ended));
                }
            }
        }
        news
    }

    /// No container ended after `now`: the wall clock was set back between its end and the note of it, and
    /// its back-off counts from the note.
    pub fn limit_ends(&mut self, now: Timestamp) {
        let ended = self.containers.values_mut().filter_map(|own| own.last.as_mut()?.finished.as_mut());
        ended.for_each(|finished| *finished = now.min(*finished));
    }

    /// To be saved when a container that a kubelet started is seen to run for the first time: true if it was
    /// not noted before.
    pub fn note_taken_over(&mut self, container: &Container, seen: &ContainerSeen) -> bool {
        let own = self.containers.get_or_default(&container.name);
        let is_new = own.given.is_none();
        if is_new {
            own.restarts = seen.attempt;
            own.given = Some(container.resources.clone());
            own.hooked.clone_from(&seen.id);
            own.begun = seen.started;
        }
        is_new
    }
}

impl ContainerRecord {
    /// `None` for an end that was noted before or is older than the one noted.
    fn note_end(
        &mut self,
        kind: ContainerKind,
        seen: &ContainerSeen,
        settings: &PodSettings,
    ) -> Option<Ended> {
        if self.knows_end(seen) {
            return None;
        }
        let ended = self.ended(seen);
        self.failures = self.failures_with(kind, seen, settings);
        self.pending &= seen.attempt < self.restarts;
        self.restarts = self.restarts.max(seen.attempt);
        self.last = Some(Box::new(ended.clone()));
        Some(ended)
    }

    /// Ends in a row that count, the one of `seen` among them.
    pub(super) fn failures_with(
        &self,
        kind: ContainerKind,
        seen: &ContainerSeen,
        settings: &PodSettings,
    ) -> u32 {
        if self.knows_end(seen) || self.stopped == seen.id {
            return self.failures;
        }
        if kind == ContainerKind::Init && seen.exit_code == 0 {
            return 0;
        }
        let noted = self.begun.filter(|_| self.hooked == seen.id);
        let begun = noted.or(seen.started).unwrap_or(seen.created);
        backoff::count(self.failures, backoff::between(begun, seen.finished.unwrap_or(begun)), settings)
    }

    /// The end of an earlier attempt was noted before the next one began.
    fn knows_end(&self, seen: &ContainerSeen) -> bool {
        self.last.as_ref().is_some_and(|last| last.id == seen.id || seen.attempt < self.restarts)
    }

    /// How `seen` ended, with the process that the kernel killed in it.
    ///
    /// The reason is `OOMKilled` where the runtime says so, and where any process of the container was killed
    /// for memory: containerd says the same, but only if its own OOM event came in time.
    pub fn ended(&self, seen: &ContainerSeen) -> Ended {
        let oom = self.victim(&seen.id).cloned();
        let reason = match (&oom, seen.exit_code) {
            (Some(_), _) => EndReason::OomKilled,
            (_, 0) if seen.reason.is_empty() => EndReason::Completed,
            _ if seen.reason.is_empty() => EndReason::Error,
            _ => seen.reason.as_str().into(),
        };
        Ended {
            id: seen.id.to_string(),
            exit_code: seen.exit_code,
            signal: signal(seen.exit_code),
            reason,
            message: seen.message.clone(),
            started: seen.started,
            finished: seen.finished,
            oom,
        }
    }
}

/// The signal in an exit status as runtimes and shells give it: 128 and its number.
fn signal(exit_code: i32) -> i32 {
    const LAST: i32 = 64;
    match exit_code - 128 {
        number @ 1..=LAST => number,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_model::ClockReading;

    use super::*;
    use crate::fixture::{at, exited};
    use crate::record::Record;

    const DAY: i64 = 86_400;

    /// The clocks after so many seconds, the wall clock set by `step` seconds.
    fn clocks(seconds: i64, step: i64) -> ClockReading {
        let boot_ns = (seconds + 500) as u64 * 1_000_000_000;
        ClockReading { wall: at(seconds + step), boot_id: "a".into(), boot_ns }
    }

    /// It starts over only after a container that ran long enough, by a clock that cannot be set.
    #[test]
    fn a_clock_that_is_set_while_a_container_runs_does_not_change_the_count_of_failures() {
        let settings = PodSettings::default();
        let long = settings.backoff_reset.as_secs() as i64 + 60;
        let pod = crate::fixture::pod(serde_json::json!({"containers": [{"name": "c", "image": "i"}]}));
        for (ran, expected) in [(5, 4), (long, 1)] {
            for step in [0, DAY, -DAY] {
                let mut record = crate::fixture::record(&pod);
                record.align(&clocks(0, 0));
                let hooked = "c.0".into();
                let own = ContainerRecord { failures: 3, hooked, begun: Some(at(0)), ..Default::default() };
                record.containers.insert("c".into(), own);
                // Another agent goes on.
                let text = serde_json::to_string(&record).unwrap();
                let mut record: Record = serde_json::from_str(&text).unwrap();
                record.align(&clocks(ran, step));
                let seen = ContainerSeen { finished: Some(at(ran + step)), ..exited("c", 0, 1) };
                let own = record.container("c").unwrap();
                let count = own.failures_with(ContainerKind::Regular, &seen, &settings);
                assert_eq!(count, expected, "ran {ran} s, clock set by {step} s");
            }
        }
    }
}
