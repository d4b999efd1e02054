//! Measures creating and destroying the cgroups of a pod through each driver that this machine has.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nodewarden_machine::cgroup::control::{
    Bound as Limit, CgroupName, Cgroupfs, CpuQuota, CpuShare, Driver, DriverKind, Interface, Limits, Manager,
    Systemd,
};
use nodewarden_machine::cgroup::{CgroupError, Controller, Layout};

use super::{Bench, Bound, Figure, Run};
use crate::fixture::{Group, Slice, TestRoot, Worker, systemd_answers};
use crate::harness::{Failure, OWN_MACHINE};

pub struct Cgroups;

/// Pods of each series, on a full and on a quick run. With systemd it is a tenth of that, because each pod
/// takes a hundred times as long.
const PODS: [u32; 2] = [500, 100];
/// Pods that have a process in each container, on a full and on a quick run.
const RUNNING: [u32; 2] = [100, 50];
/// Time-out for destroying one pod.
const DESTROY_TIMEOUT: Duration = Duration::from_secs(30);
const CONTAINERS: [&str; 2] = ["c1", "c2"];

impl Bench for Cgroups {
    fn name(&self) -> &'static str {
        "cgroups"
    }

    fn about(&self) -> &'static str {
        "creating and destroying the cgroups of a pod: pod and two containers with limits, by each driver"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let layout = Arc::new(Layout::detect()?);
        let root = TestRoot::new(run.context)?;
        let top = CgroupName::from_cgroupfs_path(root.group().path()).map_err(CgroupError::from)?;
        let cgroupfs = Series {
            run,
            driver: format!("cgroupfs, {}", layout.kind()),
            manager: Manager::new(Arc::new(Cgroupfs::new(layout.clone())), layout.clone()),
            top,
        };
        let mut figures = cgroupfs.measure()?;
        match systemd_answers() {
            Ok(()) => figures.extend(by_systemd(run, &layout)?),
            Err(reason) => run.progress(&format!("not with the systemd driver: {reason}")),
        }
        Ok(figures)
    }
}

fn by_systemd(run: &Run<'_>, layout: &Arc<Layout>) -> Result<Vec<Figure>, Failure> {
    let Some(cpu) = layout.hierarchy(Controller::Cpu) else { return Ok(Vec::new()) };
    let slice = Slice::new(run.context);
    let driver: Arc<dyn Driver> = Arc::new(Systemd::new(Cgroupfs::new(layout.clone()), cpu.version));
    let top = CgroupName::new([slice.stem()]).map_err(CgroupError::from)?;
    driver.create(&driver.path(&top), &Limits::default())?;
    Series {
        run,
        driver: format!("systemd, {}", layout.kind()),
        manager: Manager::new(driver, layout.clone()),
        top,
    }
    .measure()
}

struct Series<'a> {
    run: &'a Run<'a>,
    driver: String,
    manager: Manager,
    /// The parent of the measured cgroups.
    top: CgroupName,
}

impl Series<'_> {
    fn measure(&self) -> Result<Vec<Figure>, Failure> {
        let level = self.name(&self.top, "burstable")?;
        self.manager.create(&self.manager.path(&level), &level_limits())?;
        let share = if self.manager.kind() == DriverKind::Systemd { 10 } else { 1 };
        let count = |of: [u32; 2]| of[usize::from(self.run.quick)] / share;
        let (pods, running) = (count(PODS), count(RUNNING));

        self.run.progress(&format!("{pods} pods, {}", self.driver));
        let (mut made, mut destroyed) = (Vec::new(), Vec::new());
        for n in 0..pods {
            let pod = self.name(&level, &format!("pod{n:08x}-1111-4222-8333-000000000000"))?;
            let begun = Instant::now();
            self.make(&pod)?;
            made.push(milliseconds(begun.elapsed()));
            destroyed.push(self.destroy(&pod)?);
        }
        self.run.progress(&format!("{running} pods with processes, {}", self.driver));
        let mut killed = Vec::new();
        for n in 0..running {
            let pod = self.name(&level, &format!("pod{n:08x}-1111-4222-8333-111111111111"))?;
            self.make(&pod)?;
            let _workers = CONTAINERS
                .iter()
                .map(|container| self.worker(&self.name(&pod, container)?))
                .collect::<Result<Vec<_>, Failure>>()?;
            killed.push(self.destroy(&pod)?);
        }
        self.destroy(&level)?;

        let figure = |name: &str, values: &[f64], bound| {
            Figure::of("cgroups", format!("{name} ({})", self.driver), "ms", values, bound)
        };
        Ok(vec![
            figure("make a pod", &made, self.bound(3.0, 15.0)),
            figure("destroy, empty", &destroyed, self.bound(3.0, 15.0)),
            figure("destroy, 2 processes", &killed, self.bound(10.0, 30.0)),
        ])
    }

    /// A bound applies to cgroupfs on a real machine only. systemd has none.
    fn bound(&self, p50: f64, p99: f64) -> Bound {
        let promised = self.manager.kind() == DriverKind::Cgroupfs && std::env::var_os(OWN_MACHINE).is_none();
        if promised { Bound::both(p50, p99) } else { Bound::NONE }
    }

    fn name(&self, parent: &CgroupName, part: &str) -> Result<CgroupName, Failure> {
        Ok(parent.child(part).map_err(CgroupError::from)?)
    }

    fn make(&self, pod: &CgroupName) -> Result<(), Failure> {
        let manager = &self.manager;
        let interface = Interface::of(manager.layout());
        manager.create(&manager.path(pod), &pod_limits(&interface))?;
        for container in CONTAINERS {
            manager.create(&manager.path(&self.name(pod, container)?), &container_limits(&interface))?;
        }
        Ok(())
    }

    /// Destroys a cgroup. Returns how long that took, in milliseconds.
    fn destroy(&self, name: &CgroupName) -> Result<f64, Failure> {
        let begun = Instant::now();
        let result = self.manager.destroy(&self.manager.path(name), DESTROY_TIMEOUT);
        let took = milliseconds(begun.elapsed());
        result.map(|_| took).map_err(|error| Failure::Unexpected(error.to_string()))
    }

    fn worker(&self, container: &CgroupName) -> Result<Worker, Failure> {
        let context = self.run.context;
        let group = Group::new(Arc::clone(&context.layout), self.manager.path(container));
        Ok(Worker::start(context, Some(&group), &["sleep"])?)
    }
}

fn level_limits() -> Limits {
    Limits {
        cpu: Some(CpuShare::Shares(910)),
        memory_max: Some(Limit::Max),
        pids_max: Some(Limit::Max),
        ..Limits::default()
    }
}

/// The pod's limits as the kubelet sets them for two containers of half a CPU and 64 MiB each.
fn pod_limits(interface: &Interface) -> Limits {
    Limits {
        cpu: Some(CpuShare::Shares(1024)),
        cpu_quota: Some(CpuQuota { quota_us: Limit::At(100_000), period_us: 100_000 }),
        memory_max: Some(Limit::At(128 << 20)),
        pids_max: Some(Limit::At(1000)),
        hugetlb: interface.huge_pages().iter().map(|size| (*size, Limit::At(0))).collect(),
        ..Limits::default()
    }
}

fn container_limits(interface: &Interface) -> Limits {
    Limits {
        cpu: Some(CpuShare::Shares(512)),
        cpu_quota: Some(CpuQuota { quota_us: Limit::At(50_000), period_us: 100_000 }),
        memory_max: Some(Limit::At(64 << 20)),
        swap_max: Some(Limit::At(0)),
        oom_group: Some(true),
        pids_max: Some(Limit::Max),
        hugetlb: interface.huge_pages().iter().map(|size| (*size, Limit::Max)).collect(),
        ..Limits::default()
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
