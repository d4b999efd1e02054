//! When it is reported that others run on a container's exclusive CPUs, and in which words. No clock in here.

use std::collections::BTreeSet;
use std::time::Duration;

use nodewarden_config::ExclusiveCpuBounds;
use nodewarden_machine::cpu_list::CpuList;
use nodewarden_model::{CpuTurn, CpuUse, CpuUser};

/// The least time between two events of one container.
const EVERY: Duration = Duration::from_secs(60);

/// What happened on one CPU between two readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// The CPU's number.
    pub cpu: u32,
    /// How it was used.
    pub used: CpuUse,
    /// The longest turn of each foreign user.
    pub longest: Vec<CpuTurn>,
}

/// What others did on a container's CPUs since its last event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disturbed {
    /// When the last event was; `None` before the first.
    reported: Option<Duration>,
    /// Whether a bound was exceeded since then.
    beyond: bool,
    /// For how long it was counted.
    counted: Duration,
    used: CpuUse,
    cpus: BTreeSet<u32>,
    /// The longest turn, and on which CPU it was.
    longest: Option<(u32, CpuTurn)>,
}

impl Disturbed {
    /// Takes what happened on each of the container's CPUs in the last `elapsed`, up to the time `now` since
    /// the agent's start. Returns the text of an event if one is due: a bound was exceeded since the last
    /// one, and that is at least a minute ago.
    pub fn take(
        &mut self,
        bounds: &ExclusiveCpuBounds,
        intervals: &[Interval],
        elapsed: Duration,
        now: Duration,
    ) -> Option<String> {
        self.counted += elapsed;
        for interval in intervals {
            self.beyond |= is_beyond(bounds, interval, elapsed);
            self.cpus.insert(interval.cpu);
            for user in CpuUser::FOREIGN {
                self.used.add(user, interval.used.ns(user), interval.used.count(user));
            }
            for turn in &interval.longest {
                if self.longest.as_ref().is_none_or(|(_, longest)| turn.ns > longest.ns) {
                    self.longest = Some((interval.cpu, turn.clone()));
                }
            }
        }
        let waits = self.reported.is_some_and(|reported| now.saturating_sub(reported) < EVERY);
        if !self.beyond || waits {
            return None;
        }
        let text = self.text();
        *self = Self { reported: Some(now), ..Self::default() };
        Some(text)
    }

    fn text(&self) -> String {
        let of = |user| seconds(self.used.ns(user));
        let mut text = format!(
            "Others used its exclusive CPUs {} for {} in the last {} s: kernel threads {}, tasks of other cgroups {}, \
             interrupts {}, softirqs {}",
            self.cpus.iter().copied().collect::<CpuList>(),
            seconds(self.used.foreign_ns()),
            self.counted.as_secs().max(1),
            of(CpuUser::KernelThread),
            of(CpuUser::Other),
            of(CpuUser::Interrupt),
            of(CpuUser::Softirq),
        );
        if let Some((cpu, turn)) = &self.longest {
            text += &format!("; the longest at once: {} on CPU {cpu}, {}", who(turn), seconds(turn.ns));
        }
        text
    }
}

/// Whether others used a CPU for more than a bound allows.
fn is_beyond(bounds: &ExclusiveCpuBounds, interval: &Interval, elapsed: Duration) -> bool {
    let share = interval.used.foreign_ns() as f64 / elapsed.as_nanos().max(1) as f64;
    let longest = interval.longest.iter().map(|turn| turn.ns).max().unwrap_or(0);
    bounds.per_second.is_some_and(|most| share > most.as_secs_f64())
        || bounds.longest.is_some_and(|most| u128::from(longest) > most.as_nanos())
}

fn who(turn: &CpuTurn) -> String {
    let CpuTurn { user, pid, name, .. } = turn;
    let named = if name.is_empty() { String::new() } else { format!(" {name}") };
    match user {
        CpuUser::KernelThread => format!("kernel thread{named} (pid {pid})"),
        CpuUser::Interrupt => format!("interrupt ({name})"),
        CpuUser::Softirq => format!("softirq{named}"),
        CpuUser::Other | CpuUser::Owner | CpuUser::Idle => format!("process{named} (pid {pid})"),
    }
}

/// A time with three digits after the point: `0.399 s`.
fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MS: u64 = 1_000_000;

    fn interval(cpu: u32, used: &[(CpuUser, u64)], longest: &[(CpuUser, u64)]) -> Interval {
        let mut sum = CpuUse::default();
        used.iter().for_each(|(user, ns)| sum.add(*user, *ns, 1));
        let turn = |(user, ns): &(CpuUser, u64)| CpuTurn { user: *user, ns: *ns, pid: 9, name: "sh".into() };
        Interval { cpu, used: sum, longest: longest.iter().map(turn).collect() }
    }

    fn bounds(per_second: u64, longest: u64) -> ExclusiveCpuBounds {
        let bound = |ms| (ms > 0).then(|| Duration::from_millis(ms));
        ExclusiveCpuBounds { per_second: bound(per_second), longest: bound(longest) }
    }

    #[test]
    fn a_bound_is_exceeded_by_foreign_time_alone() {
        use CpuUser::{Idle, Interrupt, KernelThread, Other, Owner, Softirq};
        for (expected, bounds, used, longest, seconds) in [
            (false, bounds(50, 10), &[(Owner, 900 * MS), (Idle, 100 * MS)][..], &[][..], 1.0),
            (false, bounds(50, 10), &[(Other, 50 * MS)], &[], 1.0),
            (true, bounds(50, 10), &[(Other, 50 * MS + 1)], &[], 1.0),
            (
                true,
                bounds(50, 0),
                &[(Interrupt, 20 * MS), (Softirq, 20 * MS), (KernelThread, 11 * MS)],
                &[],
                1.0,
            ),
            // The reading came late, or early.
            (false, bounds(50, 10), &[(Other, 90 * MS)], &[], 2.0),
            (true, bounds(50, 10), &[(Other, 30 * MS)], &[], 0.5),
            (false, bounds(50, 10), &[(Other, 10 * MS)], &[(Other, 10 * MS)], 1.0),
            (true, bounds(50, 10), &[(Other, 11 * MS)], &[(KernelThread, MS), (Other, 10 * MS + 1)], 1.0),
            (false, bounds(50, 0), &[(Other, 40 * MS)], &[(Other, 40 * MS)], 1.0),
            (false, bounds(0, 0), &[(Other, 1000 * MS)], &[(Other, 1000 * MS)], 1.0),
        ] {
            let interval = interval(3, used, longest);
            let elapsed = Duration::from_secs_f64(seconds);
            assert_eq!(is_beyond(&bounds, &interval, elapsed), expected, "{bounds:?} {used:?} {longest:?}");
        }
    }

    #[test]
    fn there_is_one_event_a_minute_with_what_was_since_the_last() {
        let bounds = bounds(50, 10);
        let mut disturbed = Disturbed::default();
        let mut events = Vec::new();
        // Beyond the bound in seconds 1 and 3 to 5, then never again.
        for second in 1..200u64 {
            let used = if [1, 3, 4, 5].contains(&second) { 60 * MS } else { MS };
            let intervals = [interval(2, &[(CpuUser::Other, used)], &[(CpuUser::Other, MS + second)])];
            let now = Duration::from_secs(second);
            events.extend(disturbed.take(&bounds, &intervals, SECOND, now).map(|text| (second, text)));
        }
        let seconds: Vec<u64> = events.iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds, [1, 61], "at once, and of what came after it when the minute is over");
        assert!(events[0].1.contains("CPUs 2 for 0.060 s in the last 1 s"), "{}", events[0].1);
        // Three times 60 ms and 57 times 1 ms.
        assert!(events[1].1.contains("for 0.237 s in the last 60 s"), "{}", events[1].1);
    }

    #[test]
    fn the_text_names_every_user_and_the_worst() {
        let intervals = [
            interval(1, &[(CpuUser::Softirq, 4 * MS), (CpuUser::Owner, 900 * MS)], &[(CpuUser::Softirq, MS)]),
            interval(2, &[(CpuUser::Other, 200 * MS)], &[(CpuUser::Other, 150 * MS)]),
            interval(5, &[(CpuUser::KernelThread, 10 * MS), (CpuUser::Interrupt, 6 * MS)], &[]),
        ];
        let text = Disturbed::default().take(&bounds(50, 10), &intervals, SECOND, SECOND);
        let expected = "Others used its exclusive CPUs 1-2,5 for 0.220 s in the last 1 s: kernel threads 0.010 s, tasks \
                        of other cgroups 0.200 s, interrupts 0.006 s, softirqs 0.004 s; the longest at once: process sh \
                        (pid 9) on CPU 2, 0.150 s";
        assert_eq!(text.as_deref(), Some(expected));
    }

    #[test]
    fn each_foreign_user_has_its_name() {
        for (user, expected) in [
            (CpuUser::KernelThread, "kernel thread sh (pid 9)"),
            (CpuUser::Other, "process sh (pid 9)"),
            (CpuUser::Interrupt, "interrupt (sh)"),
            (CpuUser::Softirq, "softirq sh"),
        ] {
            assert_eq!(who(&CpuTurn { user, ns: 1, pid: 9, name: "sh".into() }), expected);
        }
        let unknown = CpuTurn { user: CpuUser::Other, ns: 1, pid: 9, name: String::new() };
        assert_eq!(who(&unknown), "process (pid 9)");
    }
}
