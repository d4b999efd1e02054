//! The part on the running kernel: a process of another cgroup on an exclusive CPU becomes figures and an
//! event.

use std::fs;
use std::process::{Child, Command};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use nodewarden_config::{Config, Overrides};
use nodewarden_machine::cgroup::{Layout, join};
use nodewarden_model::CpuUser;
use nodewarden_observer::Observation;
use nodewarden_storage::journal::Limits;

use super::*;

const CPU: u32 = 0;
const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// A shell that keeps a CPU busy; killed when dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let child = Command::new("/bin/sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut cpus = CpuSet::new();
        cpus.set(CPU as usize).unwrap();
        sched_setaffinity(Pid::from_raw(child.id() as i32), &cpus).unwrap();
        Self(child)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cgroup without processes in the cpu controller's hierarchy, removed at the end.
struct Cgroup {
    path: String,
    directory: std::path::PathBuf,
}

impl Cgroup {
    fn make() -> Option<Self> {
        let layout = Layout::detect().ok()?;
        let path = format!("/nodewarden-test-{}-exclusive", std::process::id());
        let directory = join(&layout.hierarchy(Controller::Cpu)?.mount, &path);
        fs::create_dir(&directory).ok()?;
        Some(Self { path, directory })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Waits at most 20 s until `what` returns something.
fn wait_for<T>(what: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(Instant::now() < end, "not within 20 s");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_process_elsewhere_becomes_figures_and_an_event() {
    let Some(cgroup) = Cgroup::make() else {
        return nodewarden_testing::skip("no cgroup can be made in the cpu controller's hierarchy");
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let config: Config = nodewarden_config::parse("test", KUBELET, &Overrides::default()).unwrap();
    let journal = Journal::open(&directory.path().join("journal"), Limits::default()).unwrap();
    let _in_runtime = runtime.enter();
    let observation = Observation::start(&config, &journal, Box::new(|_| {})).unwrap();
    let deps = Deps {
        observer: observation.observer.clone(),
        journal: journal.clone(),
        pods: PodStatusCache::default(),
        bounds: config.exclusive_cpus,
        runtime: runtime.handle().clone(),
    };
    let owners = watch::Sender::new(CpuOwners::new());
    let watch = ExclusiveCpuWatch::start(deps, owners.subscribe()).unwrap();
    let shown = watch.shown().clone();
    if shown.topic().state == HookState::Off {
        return nodewarden_testing::skip(shown.topic().reason);
    }
    let of = |cgroup: &str| CpuOwner { uid: "u".into(), container: "c".into(), cgroup: cgroup.into() };

    // Its container does not exist yet.
    owners.send_replace(CpuOwners::from([(CPU, of("/nodewarden-test-none"))]));
    let view = wait_for(|| Some(shown.view()).filter(|view| !view.cpus.is_empty()));
    assert_eq!((view.cpus[0].cpu, &view.cpus[0].used, view.problem.as_str()), (CPU, &None, ""));

    let _busy = Busy::start();
    owners.send_replace(CpuOwners::from([(CPU, of(&cgroup.path)), (1 << 16, of(&cgroup.path))]));
    let used = wait_for(|| {
        let used = shown.view().cpus.first()?.used?;
        (used.ns(CpuUser::Other) > 500_000_000).then_some(used)
    });
    assert_eq!(used.ns(CpuUser::Owner), 0, "{used:?}");
    let longest = wait_for(|| shown.view().cpus.first()?.longest.first().cloned());
    assert!(longest.ns > 0, "{longest:?}");
    let event = wait_for(|| {
        let mut events = journal.subscribe(Some(Timestamp::MIN)).backlog_only();
        runtime.block_on(async {
            while let Some(event) = events.next().await {
                if matches!(&event.detail, Detail::Pod { reason, .. } if reason == "ExclusiveCpuDisturbed") {
                    return Some(event);
                }
            }
            None
        })
    });
    let pod = event.pod.clone().unwrap();
    assert_eq!((pod.uid.as_str(), pod.container_name.as_str(), &event.cgroup), ("u", "c", &cgroup.path));

    owners.send_replace(CpuOwners::new());
    wait_for(|| shown.view().cpus.is_empty().then_some(()));
    drop(watch);
    journal.close();
}
