use super::*;
use crate::objects::PodObjects;
use crate::spec::fixture::{Fixture, pod};

const VOLUMES: &str = "volumes: [{name: e}, {name: h, hostPath: {path: /srv}}, {name: d, downwardAPI: {}}]";

fn mounts_of(fixture: &Fixture, spec: &str, ips: &[&str]) -> Result<Mounts, String> {
    let pod = pod(&format!("{VOLUMES}\n{spec}"));
    let ips: Vec<IpAddr> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
    let container = &pod.spec().containers[0];
    let environment =
        Environment::of(&pod, container, &ips, &fixture.host(), &PodObjects::default()).unwrap();
    mounts(&pod, container, 3, &ips, &environment, &fixture.host()).map_err(|error| error.to_string())
}

fn mounted(text: &str) -> String {
    format!("containers: [{{name: c, env: [{{name: A, value: x/y}}], volumeMounts: [{text}]}}]")
}

/// The mounts as `container path < host path`, with `~` for the pod's directory.
fn paths(fixture: &Fixture, mounts: &Mounts) -> Vec<String> {
    let pod_dir = fixture.host().state_pods.join("u").display().to_string();
    let one =
        |mount: &cri::Mount| format!("{} < {}", mount.container_path, mount.host_path.replace(&pod_dir, "~"));
    mounts.mounts.iter().map(one).collect()
}

#[test]
fn volumes_are_mounted_from_the_pods_directories() {
    let fixture = Fixture::new();
    let spec = mounted(
        "{name: e, mountPath: /e}, {name: h, mountPath: h, readOnly: true}, {name: d, mountPath: /d}, \
         {name: e, mountPath: /s, subPath: a/b}, {name: h, mountPath: /t, subPathExpr: 'logs/$(A)'}",
    );
    let all = mounts_of(&fixture, &spec, &["10.0.0.1"]).unwrap();
    assert_eq!(
        paths(&fixture, &all),
        [
            "/e < ~/volumes/kubernetes.io~empty-dir/e",
            "/h < /srv",
            "/d < ~/volumes/kubernetes.io~downward-api/d",
            "/s < ~/volume-subpaths/e/c/3",
            "/t < ~/volume-subpaths/h/c/4",
            "/etc/hosts < ~/etc-hosts",
            "/dev/termination-log < ~/containers/c/3",
        ]
    );
    let flags: Vec<_> = all.mounts.iter().map(|m| (m.readonly, m.selinux_relabel)).collect();
    assert_eq!(flags[..3], [(false, true), (true, false), (true, true)]);
    let parts: Vec<_> = all.sub_paths.iter().map(|part| (&*part.volume, &*part.path)).collect();
    assert_eq!(parts, [("e", "a/b"), ("h", "logs/x/y")]);
    assert!(all.hosts);
}

#[test]
fn the_hosts_file_is_not_mounted_over_a_volume() {
    let fixture = Fixture::new();
    let hosts = |spec: &str, ips: &[&str]| mounts_of(&fixture, spec, ips).unwrap().hosts;
    assert!(!hosts("containers: [{name: c}]", &[]));
    assert!(hosts("hostNetwork: true\ncontainers: [{name: c}]", &[]));
    let own = mounted("{name: e, mountPath: /etc/hosts, subPath: hosts}");
    assert!(!hosts(&own, &["10.0.0.1"]));
}

#[test]
fn the_path_of_the_termination_message_can_be_set() {
    let fixture = Fixture::new();
    let all = mounts_of(&fixture, "containers: [{name: c, terminationMessagePath: /tmp/why}]", &[]).unwrap();
    assert_eq!(paths(&fixture, &all), ["/tmp/why < ~/containers/c/3"]);
}

#[test]
fn propagation_and_what_is_refused() {
    let mut fixture = Fixture::new();
    let first = |fixture: &Fixture, text: &str| {
        mounts_of(fixture, &mounted(text), &[]).map(|mut all| all.mounts.swap_remove(0))
    };
    let of = |fixture: &Fixture, text: &str| {
        first(fixture, &format!("{{name: h, mountPath: /h, {text}}}")).map(|m| m.propagation())
    };
    use cri::MountPropagation::{PropagationBidirectional, PropagationHostToContainer, PropagationPrivate};
    assert_eq!(of(&fixture, "readOnly: false"), Ok(PropagationPrivate));
    assert_eq!(of(&fixture, "mountPropagation: None"), Ok(PropagationPrivate));
    assert_eq!(of(&fixture, "mountPropagation: HostToContainer"), Ok(PropagationHostToContainer));
    assert_eq!(of(&fixture, "mountPropagation: Bidirectional"), Ok(PropagationBidirectional));
    assert_eq!(of(&fixture, "mountPropagation: x").unwrap_err(), "invalid MountPropagation mode: \"x\"");
    assert_eq!(
        first(&fixture, "{name: none, mountPath: /n}").unwrap_err(),
        "cannot find volume \"none\" to mount into container \"c\""
    );
    assert_eq!(
        first(&fixture, "{name: e, mountPath: /n, subPathExpr: $(B)}").unwrap_err(),
        "missing value for \"B\" in subPathExpr \"$(B)\""
    );
    let recursive = |fixture: &Fixture, text: &str| {
        first(fixture, &format!("{{name: h, mountPath: /h, {text}}}")).map(|m| m.recursive_read_only)
    };
    let refused = |why: &str| Err(format!("volume \"h\" requested recursive read-only mode, but {why}"));
    assert_eq!(recursive(&fixture, "recursiveReadOnly: Enabled"), refused("it is not read-only"));
    assert_eq!(recursive(&fixture, "readOnly: true, recursiveReadOnly: IfPossible"), Ok(false));
    assert_eq!(
        recursive(&fixture, "readOnly: true, recursiveReadOnly: Enabled"),
        refused("it is not supported by the runtime")
    );
    fixture.recursive_read_only = true;
    assert_eq!(recursive(&fixture, "readOnly: true, recursiveReadOnly: IfPossible"), Ok(true));
    assert_eq!(recursive(&fixture, "readOnly: true, recursiveReadOnly: Disabled"), Ok(false));
    assert_eq!(
        recursive(&fixture, "readOnly: true, recursiveReadOnly: Enabled, mountPropagation: Bidirectional"),
        refused("it is not compatible with propagation \"Bidirectional\"")
    );
}
