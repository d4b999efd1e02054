//! In which cgroups something has run since the last look, as long as they are the same ones: a few words of
//! each are compared, instead of all that is known of it being looked up.

use std::sync::Arc;

/// What was counted at the last look. 32 bytes a cgroup.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    /// The registry's number of changes then; `None` before the first look.
    changes: Option<u64>,
    /// In the order of paths.
    seen: Vec<Seen>,
}

/// A cgroup at the last look.
#[derive(Debug)]
pub(crate) struct Seen {
    pub path: Arc<str>,
    /// The slot of its counters of switches; `None` if they are not counted.
    pub slot: Option<u32>,
    /// How often its tasks had been switched out.
    pub switches: u64,
}

impl Ran {
    /// Keeps a look at all cgroups that exist, made when the registry's number of changes was `changes`.
    pub fn set(&mut self, changes: u64, seen: Vec<Seen>) {
        *self = Self { changes: Some(changes), seen };
    }

    /// The paths, in their order, of the cgroups in which something has run since the last look or runs now,
    /// and of those without counters. `None` if there are others than then. `running` are the slots that have
    /// a task on a CPU, `switches` counts now.
    pub fn since(
        &mut self,
        changes: u64,
        running: &[u32],
        switches: impl Fn(u32) -> u64,
    ) -> Option<Vec<&str>> {
        if self.changes != Some(changes) {
            return None;
        }
        let ran = |seen: &mut Seen| {
            let Some(slot) = seen.slot else { return true };
            let now = switches(slot);
            std::mem::replace(&mut seen.switches, now) != now || running.contains(&slot)
        };
        Some(self.seen.iter_mut().filter_map(|seen| ran(seen).then_some(&*seen.path)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_has_run_if_its_switches_changed_or_a_task_is_on_a_cpu() {
        let seen = |path: &str, slot, switches| Seen { path: path.into(), slot, switches };
        let mut ran = Ran::default();
        assert_eq!(ran.since(0, &[], |_| 0), None, "before the first look");
        ran.set(7, vec![seen("/a", Some(1), 5), seen("/b", None, 0), seen("/c", Some(3), 9)]);
        let mut look = |changes, running: &[u32], first, third| {
            let switches = |slot| if slot == 1 { first } else { third };
            ran.since(changes, running, switches).map(|paths| paths.join(" "))
        };
        assert_eq!(look(7, &[], 5, 9).as_deref(), Some("/b"), "what is not counted may have run");
        assert_eq!(look(7, &[3], 5, 9).as_deref(), Some("/b /c"));
        assert_eq!(look(7, &[], 6, 9).as_deref(), Some("/a /b"));
        assert_eq!(look(7, &[], 6, 9).as_deref(), Some("/b"), "once");
        assert_eq!(look(8, &[], 7, 10), None, "others are there");
    }
}
