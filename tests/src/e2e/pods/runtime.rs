//! What the tests of pods stand on: a private container runtime with a network, and nothing left when it was killed.

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

/// A pod on its own network.
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

/// Two pods reach each other and the machine, and containerd may go and come meanwhile.
fn network(context: &Context) -> Result<(), Failure> {
    if systemd_answers().is_ok() {
        return Err(Failure::Skip("the machine's own runtime".into()));
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
    ensure_eq!(answer.text(), "hello\n", "from the machine");
    client.remove()?;
    server.remove()?;
    Ok(())
}

/// Dropping nothing, as if the test had been killed: the sweep finds and removes all of it.
fn killed(context: &Context) -> Result<(), Failure> {
    if systemd_answers().is_ok() {
        return Err(Failure::Skip("the machine's own runtime".into()));
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
    ensure_eq!(left, Vec::<String>::new(), "left after the sweep");
    Ok(())
}
