//! Removes pod cgroups of others that no process uses any more, on a thread of its own, since the runtime is
//! asked before. Nothing is ever killed for it.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use nodewarden_machine::cgroup::control::{Manager, Presence};
use nodewarden_machine::cgroup::identify;
use nodewarden_tasks::parts::{self, Part};

/// How long one order may take: the runtime is asked, and systemd may need seconds for each cgroup.
const LIMIT: Duration = Duration::from_secs(600);

/// Returns the uids of all pods, whichever agent's, of which the runtime has a sandbox or a container; `None`
/// if it cannot be asked. Blocks.
pub type InUse = Box<dyn Fn() -> Option<BTreeSet<String>> + Send>;

/// An unused cgroup that was removed, or why it is still there.
#[derive(Debug)]
pub struct Swept {
    pub path: Arc<str>,
    pub result: Result<(), String>,
}

/// The thread; it ends when this is dropped, after what it is at.
#[derive(Debug)]
pub struct Sweeper {
    /// At most one order waits: the next full reconcile finds the same cgroups again.
    orders: SyncSender<Vec<Arc<str>>>,
}

impl Sweeper {
    /// Starts the thread; it calls `done` for each cgroup that it tried to remove.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        manager: &Arc<Manager>,
        in_use: InUse,
        done: impl Fn(Swept) + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, receiver) = sync_channel(1);
        let manager = manager.clone();
        let part = parts::register("unused cgroups", LIMIT);
        thread::Builder::new().name("sweep".into()).spawn(move || {
            work(&manager, &in_use, &receiver, &done, &part);
            part.end();
        })?;
        Ok(Self { orders })
    }

    /// Removes those of the cgroups that are still empty and whose pods the runtime does not know.
    pub fn sweep(&self, paths: Vec<Arc<str>>) {
        if !paths.is_empty() {
            // Fails while an order waits.
            let _ = self.orders.try_send(paths);
        }
    }
}

fn work(
    manager: &Manager,
    in_use: &InUse,
    orders: &Receiver<Vec<Arc<str>>>,
    done: &dyn Fn(Swept),
    part: &Part,
) {
    loop {
        part.waits();
        let order = orders.recv();
        part.progress();
        let Ok(paths) = order else { return };
        let Some(used) = in_use() else { continue };
        // Two orders in a row may have the same one.
        let is_there = |path: &Arc<str>| manager.presence(path) != Presence::Nowhere;
        for path in paths.into_iter().filter(|path| is_unused(path, &used) && is_there(path)) {
            match manager.remove_empty(&path) {
                Ok(true) => done(Swept { path, result: Ok(()) }),
                // It has a process now.
                Ok(false) => {}
                Err(error) => done(Swept { path, result: Err(error.to_string()) }),
            }
        }
    }
}

/// Whether the runtime has nothing of the pod. A path that no pod's uid can be read from is not touched.
fn is_unused(path: &str, used: &BTreeSet<String>) -> bool {
    identify(path).pod_uid().is_some_and(|uid| !used.contains(uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_the_runtime_knows_uses_its_cgroup() {
        let used = BTreeSet::from(["1b2c-33".to_owned()]);
        for (path, unused) in [
            ("/kubepods/burstable/pod1b2c-33", false),
            ("/kubepods/burstable/pod1b2c-34", true),
            ("/r/kubepods/pod1b2c-34", true),
            ("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c_33.slice", false),
            ("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c_34.slice", true),
            ("/kubepods/burstable", false),
            ("/else/where", false),
        ] {
            assert_eq!(is_unused(path, &used), unused, "{path}");
        }
    }
}
