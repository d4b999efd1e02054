//! What the runtime and the kernel report of pods, as orders to their workers.

use super::Manager;
use crate::orders::Order;
use nodewarden_model::{Detail, Event, OomVictim};

impl Manager {
    /// The runtime says that something happened to a pod.
    pub(super) fn runtime_event(&mut self, uid: &str) {
        match self.workers.contains_key(uid) {
            true => self.order(uid, Order::Look),
            // It may be one without an owner.
            false => self.housekeeping.doubt(),
        }
    }

    pub(super) fn check_every_pod(&mut self) {
        self.housekeeping.doubt();
        for entry in self.workers.values() {
            let _ = entry.orders.send(Order::Look);
        }
    }

    /// Passes on what the kernel reported of a pod's cgroups.
    pub(super) fn event(&mut self, event: &Event) {
        let Some(pod) = &event.pod else {
            if matches!(event.detail, Detail::Lost { .. }) {
                self.check_every_pod();
            }
            return;
        };
        if pod.container_id.is_empty() || !self.workers.contains_key(&pod.uid) {
            return;
        }
        let container = pod.container_id.clone();
        // Cgroups that a container makes inside of its own say nothing of the container.
        let own = event.cgroup.rsplit('/').next().is_some_and(|last| last.contains(&container));
        match &event.detail {
            Detail::Oom(oom) => {
                let victim = OomVictim { time: event.time, pid: oom.pid, command: oom.command.clone() };
                self.order(&pod.uid, Order::Oom { container, victim });
            }
            // In a shared pid namespace it may be the first process of a command that was executed in the
            // container.
            Detail::Exit(exit) if exit.main && own => {
                self.order(&pod.uid, Order::Exited { container, sure: exit.namespace_pid == 1 });
            }
            Detail::CgroupEmptied {} if own => {
                self.order(&pod.uid, Order::Exited { container, sure: true });
            }
            Detail::CgroupRemoved {} if own => self.order(&pod.uid, Order::CgroupRemoved { container }),
            _ => {}
        }
    }
}
