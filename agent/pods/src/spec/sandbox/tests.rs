use super::*;
use crate::spec::fixture::{Fixture, pod};

fn config_of(fixture: &Fixture, spec: &str) -> cri::PodSandboxConfig {
    sandbox_config(&pod(spec), 2, "/kubepods/podu", &fixture.host()).unwrap()
}

#[test]
fn the_sandbox_of_a_pod_on_its_own_network() {
    let fixture = Fixture::new();
    let config = config_of(
        &fixture,
        "overhead: {memory: 10Mi}\nsecurityContext: {sysctls: [{name: net/ipv4/tcp_syncookies, value: '0'}]}\ninitContainers: [{name: i, ports: [{containerPort: 1}]}, {name: s, restartPolicy: Always, ports: [{containerPort: 2, protocol: UDP}]}]\ncontainers: [{name: c, ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.1}], resources: {limits: {memory: 64Mi}}}]",
    );
    let metadata = config.metadata.unwrap();
    assert_eq!(
        (&*metadata.name, &*metadata.namespace, &*metadata.uid, metadata.attempt),
        ("p", "ns", "u", 2)
    );
    assert_eq!(config.hostname, "p");
    assert_eq!(config.log_directory, fixture.dir.path().join("logs/ns_p_u").display().to_string());
    let ports: Vec<_> = config
        .port_mappings
        .iter()
        .map(|p| (p.protocol(), p.container_port, p.host_port, &*p.host_ip))
        .collect();
    assert_eq!(ports, [(cri::Protocol::Udp, 2, 0, ""), (cri::Protocol::Tcp, 80, 8080, "127.0.0.1")]);
    for (label, value) in [
        ("app", "web"),
        ("io.kubernetes.pod.name", "p"),
        ("io.kubernetes.pod.namespace", "ns"),
        ("io.kubernetes.pod.uid", "u"),
        ("nodewarden.io/owner", "test"),
    ] {
        assert_eq!(config.labels.get(label).map(String::as_str), Some(value), "{label}");
    }
    assert_eq!(config.annotations["note"], "a \"b\"\n");
    let linux = config.linux.unwrap();
    assert_eq!(linux.cgroup_parent, "/kubepods/podu");
    assert_eq!(linux.sysctls["net.ipv4.tcp_syncookies"], "0");
    assert_eq!(linux.resources.unwrap().memory_limit_in_bytes, 64 << 20);
    assert_eq!(linux.overhead.unwrap().memory_limit_in_bytes, 10 << 20);
}

#[test]
fn a_pods_labels_cannot_override_the_agents() {
    let fixture = Fixture::new();
    let mut pod = pod("containers: [{name: c}]");
    pod.labels.insert("nodewarden.io/owner".into(), "mine".into());
    pod.labels.insert("io.kubernetes.pod.uid".into(), "other".into());
    let config = sandbox_config(&pod, 0, "", &fixture.host()).unwrap();
    assert_eq!(
        (&*config.labels["nodewarden.io/owner"], &*config.labels["io.kubernetes.pod.uid"]),
        ("test", "u")
    );
}

#[test]
fn a_pod_on_the_host_network_has_the_nodes_name() {
    let config = config_of(&Fixture::new(), "hostNetwork: true\nhostname: x\ncontainers: [{name: c}]");
    assert_eq!(config.hostname, "");
    assert_eq!(config.linux.unwrap().overhead, Some(cri::LinuxContainerResources::default()));
}

#[test]
fn names_of_sysctls() {
    for (name, normal) in [
        ("net.ipv4.tcp_rmem", "net.ipv4.tcp_rmem"),
        ("net/ipv4/tcp_rmem", "net.ipv4.tcp_rmem"),
        ("net.ipv4.conf.eno2/100.x", "net.ipv4.conf.eno2/100.x"),
        ("net/ipv4/conf/eno2.100/x", "net.ipv4.conf.eno2/100.x"),
        ("x", "x"),
    ] {
        assert_eq!(nodewarden_manifest::dotted(name), normal);
    }
}
