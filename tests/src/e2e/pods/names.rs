//! Identity and limits of pods' cgroups that systemd or a container runtime creates.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nodewarden_proto::nodewarden::v1::Cgroup;

use crate::e2e::support::{MIB, eventually, known, oom_of, settled, within};
use crate::fixture::{
    Agent, AgentOptions, BUSYBOX_IMAGE, Client, Containerd, Cri, Group, PodSpec, Slice, TestRoot, Worker,
    parse_samples, slice_path,
};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::Scheduled;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("systemd_units_are_shown_as_pods", units).needs(&[
        Capability::Root,
        Capability::Systemd,
        Capability::Btf,
        Capability::Loopback,
    ]),
    Test::new("cri_pod_is_shown_with_its_names", names).timeout(120).needs(&[
        Capability::Root,
        Capability::Cri,
        Capability::MemoryCgroup,
        Capability::Btf,
        Capability::Loopback,
    ]),
];

const UID: &str = "3f1d9c52-6b0e-4a57-8e21-5d0c7a9b4e66";
const LIMIT: u64 = 64 * MIB;

/// A scope in a pod's slice, as runc creates it, is shown with the pod's identity, the unit's limits and its
/// CPU time.
fn units(context: &Context) -> Result<(), Failure> {
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let slice = Slice::new(context);
    let pod = slice.of_pod("burstable", UID);
    let id = "c0".repeat(32);
    let scope = format!("cri-containerd-{id}.scope");
    let limit = format!("MemoryMax={LIMIT}");
    let properties = [limit.as_str(), "CPUQuota=50%", "TasksMax=30"];
    let mut worker =
        Worker::spawn_through(context, slice.scope(&pod, &scope, &properties), &["spin", "2000"])?;

    let path = format!("{}/{scope}", slice_path(&pod));
    let group = Group::new(context.layout.clone(), path.clone());
    let container = eventually(context.patiently(5), "the scope is not listed", || {
        Ok(client.cgroups(&path)?.into_iter().find(|cgroup| cgroup.path == path))
    })?;
    check_identity(&container, "container", &id)?;
    check_identity(&client.cgroup(&slice_path(&pod))?, "pod", "")?;
    let above = slice_path(&pod.replace(&format!("-pod{}", UID.replace('-', "_")), ""));
    let above = client.cgroup(&above)?;
    ensure_eq!(
        (above.kind.as_str(), above.qos.as_str()),
        ("qos", "Burstable"),
        "kind and QoS of {}",
        above.path
    );

    worker.go()?;
    let _: Scheduled = worker.report(context.patiently(20))?;
    let container = settled(&client, &group)?;
    let (on_cpu, files) = (known(container.on_cpu_ns, "on_cpu_ns")?, group.kernel_cpu_ns()?);
    ensure!(files > 100_000_000, "the scope's process got only {files} ns");
    ensure!(within(on_cpu, files, 10.0), "{on_cpu} ns on CPU counted, the scope's files say {files} ns");
    ensure_eq!(container.memory_limit_bytes, Some(LIMIT), "MemoryMax");
    ensure_eq!((container.cpu_quota_us, container.cpu_period_us), (Some(50_000), Some(100_000)), "CPUQuota");
    ensure_eq!(container.threads_max, Some(30), "TasksMax");
    worker.finish(context.patiently(5))?;
    eventually(context.patiently(5), "the removed scope is still shown as living", || {
        let cgroups = client.cgroups(&path)?;
        Ok(cgroups.iter().find(|cgroup| cgroup.path == path).and_then(|cgroup| cgroup.removed))
    })?;
    Ok(())
}

/// Checks the kind, pod and QoS class that the agent shows of a cgroup.
fn check_identity(cgroup: &Cgroup, kind: &str, id: &str) -> Result<(), Failure> {
    let pod = cgroup.pod.as_ref().map(|pod| (pod.uid.as_str(), pod.container_id.as_str()));
    ensure_eq!(cgroup.kind, kind, "kind of {}", cgroup.path);
    ensure_eq!(pod, Some((UID, id)), "uid and container id of {}", cgroup.path);
    ensure_eq!(cgroup.qos, "Burstable", "QoS of {}", cgroup.path);
    Ok(())
}

/// A pod created through CRI is shown with its names in the list, in metrics, and in the event of an OOM
/// kill; with cgroupfs or systemd, whichever the runtime uses.
fn names(context: &Context) -> Result<(), Failure> {
    let containerd = Containerd::start(context)?;
    let cri = Cri::connect(containerd.socket())?;
    let systemd = cri.uses_systemd()?;
    let root = if systemd { None } else { Some(TestRoot::new(context)?) };
    let slice = systemd.then(|| Slice::new(context));
    let parent = match (&root, &slice) {
        (Some(root), _) => format!("{}/kubepods/burstable/pod{UID}", root.group().path()),
        (None, Some(slice)) => slice.of_pod("burstable", UID),
        (None, None) => return Err(Failure::Unexpected("neither cgroupfs nor systemd".into())),
    };
    let pod_path = if systemd { slice_path(&parent) } else { parent.clone() };
    let container_path = |id: &str| {
        if systemd { format!("{pod_path}/cri-containerd-{id}.scope") } else { format!("{pod_path}/{id}") }
    };

    let options = AgentOptions { runtime: Some(containerd.socket().to_owned()), ..Default::default() };
    let agent = Agent::start(context, &options)?;
    let client = agent.client()?;
    let events = client.watch_types(&["oom"])?;
    eventually(context.patiently(5), "the agent does not reach the runtime", || {
        Ok(client.status()?.runtime.starts_with("containerd ").then_some(()))
    })?;

    let spec = PodSpec { name: "web-0", namespace: "shop", uid: UID, cgroup_parent: &parent };
    let mut pod = cri.run_pod(&spec, context.problems())?;
    let sleeps = ["/bin/busybox", "sleep", "600"];
    let nginx = pod.start_container("nginx", BUSYBOX_IMAGE, &sleeps, LIMIT.cast_signed())?;
    wait_named(context, &client, &container_path(&nginx), "container", "nginx")?;
    wait_named(context, &client, &container_path(pod.sandbox()), "sandbox", "")?;
    wait_named(context, &client, &pod_path, "pod", "")?;
    let listed = client.cgroup(&container_path(&nginx))?;
    ensure_eq!(listed.image, BUSYBOX_IMAGE, "image");
    // The runtime may set limits after the agent has first read the cgroup.
    eventually(context.patiently(15), "the memory limit is not the one asked for", || {
        let limit = client.cgroup(&container_path(&nginx))?.memory_limit_bytes;
        Ok((limit == Some(LIMIT)).then_some(()))
    })?;
    let samples = parse_samples(&agent.get("/metrics/cadvisor")?.text());
    let labels = [("container", "nginx"), ("pod", "web-0"), ("namespace", "shop"), ("name", &nginx)];
    let described = samples.iter().any(|sample| {
        let has = |(key, value): &(&str, &str)| sample.labels.get(*key).is_some_and(|v| v == value);
        sample.name == "container_memory_working_set_bytes" && labels.iter().all(has)
    });
    ensure!(described, "no series of the container with its names in /metrics/cadvisor");

    // On SIGUSR1 it reads more at once than its limit allows. It must live until the agent has asked the
    // runtime for its name.
    let script = "trap 'exec /bin/busybox dd if=/dev/zero of=/dev/null bs=256M count=1' USR1; \
                  while true; do /bin/busybox sleep 0.2; done";
    let command = ["/bin/busybox", "sh", "-c", script];
    let over_limit = pod.start_container("hungry", BUSYBOX_IMAGE, &command, LIMIT.cast_signed())?;
    let path = container_path(&over_limit);
    wait_named(context, &client, &path, "container", "hungry")?;
    signal_all(&Group::new(context.layout.clone(), path.clone()))?;
    let received = events.find(context.patiently(10), |event| event.cgroup == path)?;
    let event = known(received, "an OOM kill of the container")?.event;
    let oom = known(oom_of(&event), "the details of the kill")?;
    ensure_eq!(
        (oom.limit_cgroup.as_str(), oom.limit_bytes),
        (path.as_str(), Some(LIMIT)),
        "limit of the kill"
    );
    let pod_ref = known(event.pod.as_ref(), "the pod of the killed container")?;
    let names = (pod_ref.namespace.as_str(), pod_ref.name.as_str(), pod_ref.container_name.as_str());
    ensure_eq!(
        (names, pod_ref.uid.as_str(), pod_ref.container_id.as_str()),
        (("shop", "web-0", "hungry"), UID, over_limit.as_str()),
        "names in the event"
    );
    pod.remove()?;
    Ok(())
}

/// Sends SIGUSR1 to every process of a cgroup.
fn signal_all(group: &Group) -> Result<(), Failure> {
    let procs = group.directory(group.hierarchy("memory")?).join("cgroup.procs");
    let pids = std::fs::read_to_string(&procs).map_err(Failure::file(&procs))?;
    for pid in pids.lines().filter_map(|line| line.parse().ok()) {
        // A process that has ended meanwhile is one of the short sleeps.
        let _ = kill(Pid::from_raw(pid), Signal::SIGUSR1);
    }
    Ok(())
}

/// Waits until a cgroup is shown with its pod's and container's names, and checks its kind.
fn wait_named(
    context: &Context,
    client: &Client,
    path: &str,
    kind: &str,
    container: &str,
) -> Result<(), Failure> {
    let wanted = ("shop", "web-0", container);
    let mut last = None;
    let found = eventually(context.patiently(10), "", || {
        last = client.cgroups(path)?.into_iter().find(|cgroup| cgroup.path == path);
        let pod = last.as_ref().and_then(|cgroup| cgroup.pod.as_ref());
        let names = pod.map(|p| (p.namespace.as_str(), p.name.as_str(), p.container_name.as_str()));
        Ok((names == Some(wanted)).then_some(()))
    });
    found.map_err(|_| Failure::Unexpected(format!("{path} should be {wanted:?} and is {last:?}")))?;
    let seen = last.map(|cgroup| cgroup.kind).unwrap_or_default();
    ensure_eq!(seen, kind, "kind of {path}");
    Ok(())
}
