//! Work on all cgroups in two threads, for a client that waits.

use std::sync::OnceLock;
use std::sync::mpsc;

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use nodewarden_model::Identity;

/// Number of cgroups from which on a second thread is started. With fewer, the work is done before another
/// CPU has begun with its part.
const SPLIT: usize = 1000;

/// Whether work on so many cgroups is to be done in two threads.
pub(crate) fn is_to_split(cgroups: usize) -> bool {
    cgroups >= SPLIT
}

/// Does work that a client waits for, on this thread and, if `is_split`, on a second one. The second one
/// begins with `before`, while `prepare` returns the two halves of the work on this one. Then `each` is
/// called for both at the same time, with the result of `before`.
pub(crate) fn in_halves<S, W>(
    is_split: bool,
    before: impl FnOnce() -> S + Send,
    prepare: impl FnOnce() -> [W; 2],
    each: impl Fn(&S, W) + Sync,
) where
    S: Send + Sync,
    W: Send,
{
    let shared = OnceLock::new();
    if !is_split {
        let shared = shared.get_or_init(before);
        return prepare().into_iter().for_each(|half| each(shared, half));
    }
    let (shared, each) = (&shared, &each);
    std::thread::scope(|scope| {
        let elsewhere = another_cpu();
        let (hand_over, taken) = mpsc::channel();
        let other = scope.spawn(move || {
            if let Some(cpus) = elsewhere {
                // If this fails, the two threads may share a CPU.
                let _ = sched_setaffinity(Pid::from_raw(0), &cpus);
            }
            let shared = shared.get_or_init(before);
            if let Ok(half) = taken.recv() {
                each(shared, half);
            }
        });
        let [left, right] = prepare();
        // What a thread that panicked has not done stays as it was.
        if hand_over.send(right).is_ok() {
            each(shared.wait(), left);
        }
        let _ = other.join();
    });
}

/// Where the work is divided: in the middle, but not between a pod and what is below it, which is read after
/// it.
pub(crate) fn middle<T>(all: &[T], identity: impl Fn(&T) -> &Identity) -> usize {
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
    fn each_half_is_worked_on_once() {
        for is_split in [true, false] {
            let mut all = vec![0; 1001];
            let (left, right) = all.split_at_mut(400);
            let prepare = || [left, right];
            let each = |shared: &i32, half: &mut [i32]| half.iter_mut().for_each(|one| *one += shared);
            in_halves(is_split, || 3, prepare, each);
            assert!(all.into_iter().all(|sum| sum == 3));
        }
    }
}
