//! Where the kubelet, the container runtime and other processes of the machine are, for `/stats/summary`:
//! looked up in a thread of its own, because the runtime's socket may not answer, at most once a minute, and
//! only if asked for.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::warn;

use nodewarden_config::{Config, Mode};
use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::node::system_cgroups::SystemCgroupSources;
use nodewarden_model::SystemCgroups;

/// How long an answer is used.
const FRESH: Duration = Duration::from_secs(60);
/// How long a caller waits for a look that is under way.
const PATIENCE: Duration = Duration::from_millis(500);

/// The look-up, with its last answer.
pub struct SystemCgroupLookup {
    find: Arc<dyn Fn() -> SystemCgroups + Send + Sync>,
    state: Arc<Mutex<LookupState>>,
}

#[derive(Default)]
struct LookupState {
    found: SystemCgroups,
    /// When the last look began.
    begun: Option<Instant>,
    looking: bool,
}

/// A look under way. However it ends, another one can begin.
struct Looking(Arc<Mutex<LookupState>>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.lock().looking = false;
        if thread::panicking() {
            warn!("looking up cgroups of the system panicked: it is tried again in {} s", FRESH.as_secs());
        }
    }
}

impl SystemCgroupLookup {
    pub fn new(config: &Config, layout: &Layout) -> Self {
        let sources = SystemCgroupSources {
            manages: config.mode == Mode::Manage,
            kubelet_cgroups: config.node.kubelet_cgroups.clone(),
            runtime_cgroups: config.node.runtime_cgroups.clone(),
            system_cgroups: config.node.system_cgroups.clone(),
            runtime_socket: config.runtime_endpoint.as_ref().map(|endpoint| endpoint.path().to_owned()),
        };
        let layout = layout.clone();
        Self::of(move || sources.find(&layout))
    }

    fn of(find: impl Fn() -> SystemCgroups + Send + Sync + 'static) -> Self {
        Self { find: Arc::new(find), state: Arc::default() }
    }

    /// What is known. Waits for a new look for a moment, if one is due; blocks.
    pub fn get(&self) -> SystemCgroups {
        let due = {
            let mut state = self.state.lock();
            let due = !state.looking && state.begun.is_none_or(|begun| begun.elapsed() >= FRESH);
            if due {
                (state.looking, state.begun) = (true, Some(Instant::now()));
            }
            due
        };
        if due {
            let (find, looking) = (self.find.clone(), Looking(self.state.clone()));
            // The caller may have gone on without it. After a panic the sender is dropped, and last: the
            // caller may look again at once.
            let (done, is_done) = mpsc::channel::<()>();
            let started = thread::Builder::new().name("system-cgroups".into()).spawn(move || {
                let _done = done;
                let looking = looking;
                let found = find();
                looking.0.lock().found = found;
                drop(looking);
            });
            match started {
                Ok(_) => drop(is_done.recv_timeout(PATIENCE)),
                Err(error) => warn!(%error, "cannot start the thread that looks up cgroups of the system"),
            }
        }
        self.state.lock().found.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn an_answer_is_used_for_a_while() {
        let looks = Arc::new(AtomicU32::new(0));
        let counted = looks.clone();
        let lookup = SystemCgroupLookup::of(move || SystemCgroups {
            kubelet: Some(format!("/{}", counted.fetch_add(1, Ordering::Relaxed))),
            ..SystemCgroups::default()
        });
        for _ in 0..3 {
            assert_eq!(lookup.get().kubelet.as_deref(), Some("/0"));
        }
        lookup.state.lock().begun = Instant::now().checked_sub(FRESH);
        assert_eq!(lookup.get().kubelet.as_deref(), Some("/1"));
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn after_a_panic_the_next_look_is_made() {
        let looks = Arc::new(AtomicU32::new(0));
        let counted = looks.clone();
        let lookup = SystemCgroupLookup::of(move || match counted.fetch_add(1, Ordering::Relaxed) {
            // Without the message and the backtrace, which would load the symbols into this process.
            0 => std::panic::resume_unwind(Box::new("planted")),
            _ => SystemCgroups { misc: Some("/found".into()), ..SystemCgroups::default() },
        });
        assert_eq!(lookup.get(), SystemCgroups::default());
        assert_eq!(lookup.get(), SystemCgroups::default(), "not at once");
        lookup.state.lock().begun = Instant::now().checked_sub(FRESH);
        assert_eq!(lookup.get().misc.as_deref(), Some("/found"));
    }

    #[test]
    fn a_runtime_that_does_not_answer_holds_nobody_up() {
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let lookup = SystemCgroupLookup::of(move || {
            let _ = released.lock().recv();
            SystemCgroups { misc: Some("/late".into()), ..SystemCgroups::default() }
        });
        let begun = Instant::now();
        assert_eq!(lookup.get(), SystemCgroups::default());
        assert_eq!(lookup.get(), SystemCgroups::default());
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        drop(release);
        let deadline = Instant::now() + Duration::from_secs(20);
        while lookup.get().misc.is_none() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(lookup.get().misc.as_deref(), Some("/late"));
    }
}
