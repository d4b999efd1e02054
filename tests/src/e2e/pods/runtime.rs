//! Tests of the private container runtime that the tests of pods use.

use nodewarden_proto::runtime::v1 as cri;

use crate::fixture::{BUSYBOX_IMAGE, Containerd, Cri, TestRoot, link_name, systemd_answers};
use crate::harness::{Capability, Context, Failure, Sweep, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("runtime_gives_pods_a_network", network)
        .needs(&[Capability::Root, Capability::Cri, Capability::PodNetwork])
        .without_agent(),
    Test::new("runtime_killed_leaves_nothing", killed)
        .needs(&[Capability::Root, Capability::Cri, Capability::PodNetwork])
        .without_agent(),
];

/// The configuration of a sandbox with a network of its own.
fn config(name: &str, parent: &str) -> cri::PodSandboxConfig {
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: name.to_owned(),
            uid: format!("{name}-uid"),
            namespace: "default".to_owned(),
            attempt: 0,
        }),
        linux: Some(cri::LinuxPodSandboxConfig { cgroup_parent: parent.to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

/// A pod and the machine reach another pod over the pod network, also after a restart of containerd.
fn network(context: &Context) -> Result<(), Failure> {
    if systemd_answers().is_ok() {
        return Err(Failure::Skip("uses the machine's own runtime".into()));
    }
    let root = TestRoot::new(context)?;
    let mut containerd = Containerd::start(context)?;
    let cri = Cri::connect(containerd.socket())?;
    let parent = |name: &str| format!("{}/{name}", root.group().path());
    let mut server = cri.run_sandbox(config("server", &parent("server")), context.problems())?;
    let command = ["/bin/sh", "-c", "mkdir /www; echo hello > /www/index.html; httpd -f -p 8080 -h /www"];
    server.start_container("c", BUSYBOX_IMAGE, &command, 0)?;
    let address = server.ip()?;
    ensure!(address.starts_with("10.213."), "the pod's address is {address:?}");
    let mut client = cri.run_sandbox(config("client", &parent("client")), context.problems())?;
    let id = client.start_container("c", BUSYBOX_IMAGE, &["/bin/sleep", "600"], 0)?;
    let ask = ["/bin/busybox", "wget", "-q", "-O", "-", &format!("http://{address}:8080/")];
    containerd.while_stopped(|| Ok::<_, Failure>(()))?;
    let answer = client.exec(&id, &ask)?;
    ensure_eq!(answer, (0, "hello\n".to_owned()), "{ask:?}");
    let answer = crate::fixture::get(
        format!("{address}:8080").parse().map_err(|_| Failure::Unexpected(address.clone()))?,
        "/",
        context.patiently(5),
    )?;
    ensure_eq!(answer.text(), "hello\n", "answer to the machine");
    client.remove()?;
    server.remove()?;
    Ok(())
}

/// After a test that was killed and so dropped nothing, the sweep finds and removes everything that it left.
fn killed(context: &Context) -> Result<(), Failure> {
    if systemd_answers().is_ok() {
        return Err(Failure::Skip("uses the machine's own runtime".into()));
    }
    let root = TestRoot::new(context)?;
    let containerd = Containerd::start(context)?;
    let cri = Cri::connect(containerd.socket())?;
    let parent = format!("{}/pod", root.group().path());
    let pod = cri.run_sandbox(config("pod", &parent), context.problems())?;
    pod.start_container("c", BUSYBOX_IMAGE, &["/bin/sleep", "600"], 0)?;
    std::mem::forget((pod, containerd, root));
    let link = std::path::Path::new("/sys/class/net").join(link_name(context.runner()));
    ensure!(link.exists(), "{} is not there", link.display());
    let sweep = Sweep::new(&context.layout, context.runner());
    let found = sweep.clean();
    let kinds = ["cgroup", "network link", "directory", "mount", "process"];
    let all = found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    for kind in kinds {
        ensure!(found.iter().any(|left| left.to_string().starts_with(kind)), "no {kind} was found: {all}");
    }
    let left: Vec<_> = sweep.find().iter().map(ToString::to_string).collect();
    ensure_eq!(left, Vec::<String>::new(), "leftovers after the sweep");
    Ok(())
}
