//! Work on all cgroups in two threads, for a client that waits.

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use nodewarden_model::Identity;

/// Number of cgroups from which on a second thread is started.
const SPLIT: usize = 100;

/// Calls `one` for all of `all`, or for each half of it at the same time, and `last` after the first half,
/// whose result is returned. Neither half is empty, and none begins within a pod. `identity` is that of a
/// cgroup; they are ordered by path.
pub(crate) fn in_halves<T: Send, R>(
    all: &mut [T],
    identity: impl Fn(&T) -> &Identity,
    one: impl Fn(&mut [T]) + Sync,
    last: impl FnOnce() -> R,
) -> R {
    if all.len() < SPLIT {
        one(all);
        return last();
    }
    let (left, right) = all.split_at_mut(middle(all, identity));
    std::thread::scope(|scope| {
        let elsewhere = another_cpu();
        let one = &one;
        let other = scope.spawn(move || {
            if let Some(cpus) = elsewhere {
                // If this fails, the two threads may share a CPU.
                let _ = sched_setaffinity(Pid::from_raw(0), &cpus);
            }
            one(right);
        });
        one(left);
        // The other thread began a moment later.
        let result = last();
        // What a thread that panicked has not done stays as it was.
        let _ = other.join();
        result
    })
}

/// Where the work is divided: in the middle, but not between a pod and what is below it, which is read after
/// it.
fn middle<T>(all: &[T], identity: impl Fn(&T) -> &Identity) -> usize {
    let in_pod = |one: &&T| matches!(identity(one), Identity::Container { .. } | Identity::Nested { .. });
    let half = all.len() / 2;
    half + all[half..].iter().take_while(in_pod).count()
}

/// The CPUs that this process may use, without the one this thread is on: some kernels pack threads that wake
/// each other on one CPU, and two readers there are no faster than one.
fn another_cpu() -> Option<CpuSet> {
    let mut cpus = sched_getaffinity(Pid::from_raw(0)).ok()?;
    cpus.unset(sched_getcpu().ok()?).ok()?;
    (0..CpuSet::count()).any(|cpu| cpus.is_set(cpu).unwrap_or(false)).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use nodewarden_machine::cgroup::identify;

    use super::*;

    const POD: &str = "/kubepods/pod9b2b2c1c-6b0c-4f55-8a0e-3f6f0d6f0001";

    #[test]
    fn a_pod_is_not_divided() {
        let id = "a".repeat(64);
        let paths = ["/", "/kubepods", POD, &format!("{POD}/{id}"), &format!("{POD}/{id}/x"), "/z"];
        let all = paths.map(identify);
        let middle = |all: &[Identity]| middle(all, |identity| identity);
        assert_eq!(middle(&all), 5);
        assert_eq!((middle(&all[..2]), middle(&all[..4])), (1, 2));
    }

    #[test]
    fn each_is_worked_on_once() {
        for count in [0, 1, SPLIT - 1, SPLIT, SPLIT + 1, 1001] {
            let mut all = vec![0; count];
            let one = |half: &mut [i32]| half.iter_mut().for_each(|one| *one += 1);
            assert_eq!(in_halves(&mut all, |_| &Identity::Other, one, || 7), 7);
            assert!(all.into_iter().all(|times| times == 1), "{count}");
        }
    }
}
