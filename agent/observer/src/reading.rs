//! One cgroup while it is read.

use nodewarden_model::GroupView;

use super::counted::Counted;
use super::files::Work;
use super::registry::Group;
use super::remembered::Remembered;

/// See the module.
pub(crate) struct Reading<'a> {
    pub group: &'a Group,
    pub own: &'a mut Remembered,
    /// For a client.
    pub view: Option<&'a mut GroupView>,
    /// Whether a client asks, and nothing has run in it or below it since the last time that one did.
    pub is_idle: bool,
}

impl Reading<'_> {
    /// Updates the counters, if there are some, and shows them.
    pub fn take_counters(&mut self, counted: Option<&Counted<'_>>) {
        let Self { group, own, view, .. } = self;
        let counters = match counted {
            Some(counted) => counted.update(group, &mut own.counters),
            None => own.counters.get(),
        };
        if let Some(view) = view {
            view.kernel = counters;
        }
    }

    /// What is to be done for its files; `None` if it was removed.
    pub fn work(&mut self) -> Option<Work<'_>> {
        let Self { group, own, view, is_idle } = self;
        let Remembered { usage, reader, pids_cgroup, .. } = &mut **own;
        let shown = view.as_mut().map(|view| &mut view.usage);
        if group.removed.is_some() {
            *reader = None;
            if let Some(shown) = shown {
                *shown = usage.get();
            }
            return None;
        }
        Some(Work { group, idle: *is_idle, usage, reader, pids_cgroup, shown })
    }
}
