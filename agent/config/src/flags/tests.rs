//! What a kubelet is started with starts the agent.

use clap::Parser;

use super::table::{FLAGS, Meaning};
use crate::{Config, ConfigError, Mode, Overrides, keys, load, parse, with_dashes};

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    overrides: Overrides,
}

fn flags(args: &[&str]) -> Overrides {
    let args = std::iter::once("kubelet").chain(args.iter().copied()).map(with_dashes);
    Command::try_parse_from(args).unwrap_or_else(|error| panic!("{error}")).overrides
}

fn read(args: &[&str]) -> Result<Config, ConfigError> {
    load(None, None, &flags(args))
}

#[test]
fn flags_are_sorted_and_their_keys_exist() {
    assert!(FLAGS.windows(2).all(|pair| pair[0].name < pair[1].name));
    for flag in FLAGS {
        if let Meaning::Key(path, _) = flag.meaning {
            assert!(keys::find(&path.join(".")).is_some(), "{}: {path:?}", flag.name);
        }
    }
}

/// The keys of ours that flags set are read: another one would be refused as unknown.
#[test]
fn every_flag_can_be_given() {
    for flag in FLAGS {
        let Meaning::Key(path, form) = flag.meaning else { continue };
        let text = match form {
            super::Form::Map => "a=b",
            super::Form::Thresholds => "memory.available<1Gi",
            super::Form::Taints => "a=b:NoSchedule",
            super::Form::Gates => "NodeSwap=true",
            super::Form::Headers => "a:b",
            super::Form::MemoryByNode => "0:memory=1Gi",
            _ => "1",
        };
        let error = read(&[&format!("--{}={text}", flag.name)]).err().map(|error| error.to_string());
        assert!(!error.as_ref().is_some_and(|error| error.contains("unknown key")), "{path:?}: {error:?}");
    }
}

/// The drop-in of kubeadm 1.36 with the flags that it writes into /var/lib/kubelet/kubeadm-flags.env, and
/// older ones.
#[test]
fn a_kubeadm_drop_in_starts_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    std::fs::write(
        &config,
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nrotateCertificates: true\n\
         clusterDNS: [10.96.0.10]\nstaticPodPath: /etc/kubernetes/manifests\n",
    )
    .unwrap();
    let given = [
        "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        "--container-runtime=remote",
        "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
        "--pod-infra-container-image=registry.k8s.io/pause:3.10",
        "--hostname-override",
        "Node-1",
        "--node-ip=10.0.0.1",
        "--node-labels=zone=a,node.kubernetes.io/pool=b",
        "--register-with-taints=node-role.kubernetes.io/control-plane:NoSchedule",
        "--fail-swap-on=false",
        "--cgroup_driver",
        "systemd",
        "--network-plugin=cni",
        "-v",
        "4",
    ];
    let config = load(Some(&config), None, &flags(&given)).unwrap();
    let settings = &config.kubernetes;
    assert_eq!(config.mode, Mode::Manage);
    assert_eq!(config.node_name.as_deref(), Some("node-1"));
    assert_eq!(settings.kubeconfig.as_deref(), Some("/etc/kubernetes/kubelet.conf".as_ref()));
    assert_eq!(settings.node_ips, ["10.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(settings.node_labels.len(), 2);
    assert_eq!(settings.register_with_taints.len(), 1);
    assert!(settings.rotate_certificates && !config.node.fail_swap_on);
    assert_eq!(config.node.cgroup_driver.to_string(), "systemd");
    assert_eq!(config.flags_without_effect.len(), 2, "{:?}", config.flags_without_effect);
    assert_eq!(config.logging.verbosity, 4);
}

#[test]
fn values_are_read_as_pflag_reads_them() {
    let config = read(&[
        "--eviction-hard=memory.available<1Gi,nodefs.available<3%",
        "--system-reserved",
        "cpu=500m,memory=1Gi",
        "--register-node=0",
        "--cluster-dns=10.0.0.1",
        "--cluster-dns=10.0.0.2",
        "--max-pods=7",
        "--oom-score-adj",
        "-500",
        "--serialize-image-pulls=false",
        "--seccomp-default",
        "--manifest-url=http://h/pods",
        "--manifest-url-header=Authorization:Bearer a, X-One: b:c",
        "--manifest-url-header=X-One:d",
        "--http-check-frequency=5s",
    ])
    .unwrap();
    assert_eq!(config.node.system_reserved["memory"].to_string(), "1Gi");
    assert_eq!(
        (config.pods.cluster_dns.len(), config.node.max_pods, config.node.oom_score_adj),
        (2, 7, -500)
    );
    assert!(!config.kubernetes.register_node && config.pods.seccomp_default);
    assert_eq!(config.pods.parallel_image_pulls, None);
    let served = config.node.static_pod_url;
    assert_eq!((served.url.as_deref(), served.check_frequency.as_secs()), (Some("http://h/pods"), 5));
    assert_eq!(served.headers["X-One"], ["b:c", "d"]);
    assert_eq!(served.headers["Authorization"], ["Bearer a"]);
}

/// Drop-ins for kubelets before 1.30 pass it on Azure.
#[test]
fn registries_of_azure_need_a_credential_provider() {
    let config = read(&["--azure-container-registry-config=/etc/kubernetes/azure.json"]).unwrap();
    let expected =
        "--azure-container-registry-config has no effect here: no registry's credentials are built in";
    assert!(config.flags_without_effect[0].starts_with(expected), "{:?}", config.flags_without_effect);
}

#[test]
fn memory_is_reserved_by_node() {
    for given in [
        &["--reserved-memory=0:memory=1Gi,hugepages-2Mi=4Mi", "--reserved-memory", "1:memory=2Gi"][..],
        &["--reserved-memory=0:memory=1Gi,hugepages-2Mi=4Mi;1:memory=2Gi"],
    ] {
        let config = read(given).unwrap();
        assert!(config.flags_without_effect.is_empty(), "{:?}", config.flags_without_effect);
        let mut found = Vec::new();
        for (node, limits) in &config.node.managers.reserved_memory {
            let amounts = limits.iter().map(|(name, amount)| (*node, name.clone(), amount.to_string()));
            found.extend(amounts);
        }
        let expected = [(0, "hugepages-2Mi", "4Mi"), (0, "memory", "1Gi"), (1, "memory", "2Gi")];
        assert_eq!(found, expected.map(|(node, name, amount)| (node, name.to_owned(), amount.to_owned())));
    }
    assert!(read(&["--reserved-memory="]).unwrap().node.managers.reserved_memory.is_empty());
}

#[test]
fn gates_of_flags_are_merged_with_those_of_the_file() {
    let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                featureGates: {MemoryQoS: true, NodeSwap: true}\n";
    let config =
        parse("f", text, &flags(&["--feature-gates=NodeSwap=false,RotateKubeletServerCertificate=true"]));
    let gates = config.unwrap().gates;
    assert_eq!((gates.memory_qos, gates.node_swap), (true, false));
}

#[test]
fn problems_name_the_flag() {
    for (arg, expected) in [
        ("--max-pods=many", "--max-pods: many: expected a whole number"),
        ("--max-pods=-1", "--max-pods: -1: expected a whole number from 0 up"),
        (
            "--container-runtime=docker",
            "--container-runtime: docker: expected remote: nothing else is built in",
        ),
        ("--runonce", "--runonce: true: expected false: nothing else is built in"),
        (
            "--lock-file=/l",
            "--lock-file: /l: expected nothing: a second agent on the machine is refused by its socket",
        ),
        ("--cloud-provider=aws", "--cloud-provider: aws: expected external"),
        ("--manifest-url=pods", "--manifest-url: pods: expected a URL like"),
        (
            "--manifest-url-header=a",
            "--manifest-url-header: a: expected name:value, with commas between several",
        ),
        ("--node-labels=a", "--node-labels: a: expected name=value, with commas between several"),
        (
            "--register-with-taints=a=b",
            "--register-with-taints: a=b: expected key=value:effect, with commas between several",
        ),
        (
            "--reserved-memory=memory=1Gi",
            "--reserved-memory: memory=1Gi: expected a NUMA node's number and amounts like 0:memory=1Gi,",
        ),
        (
            "--reserved-memory=a:memory=1Gi",
            "--reserved-memory: a:memory=1Gi: expected a NUMA node's number and amounts like 0:memory=1Gi,",
        ),
        (
            "--reserved-memory=0:memory",
            "--reserved-memory: 0:memory: expected a NUMA node's number and amounts like 0:memory=1Gi,",
        ),
        (
            "--reserved-memory=0:memory=1Gi;",
            "--reserved-memory: 0:memory=1Gi;: expected a NUMA node's number and amounts like 0:memory=1Gi,",
        ),
        (
            "--reserved-memory=0:cpu=1",
            "--reserved-memory[0].limits.cpu: unknown resource: expected memory or hugepages-SIZE",
        ),
        (
            "--reserved-memory=0:memory=many",
            "--reserved-memory[0].limits.memory: many: expected an amount above 0 like 1Gi",
        ),
        (
            "--reserved-memory=0:memory=1;0:memory=2",
            "--reserved-memory[1].limits.memory: 2: expected each type of memory once for each NUMA node",
        ),
        (
            "--system-reserved=disk=1",
            "--system-reserved.disk: unknown resource: expected one of cpu, memory, ephemeral-storage, pid",
        ),
    ] {
        let error = read(&[arg]).unwrap_err().to_string();
        assert!(error.contains(expected), "{arg}: {error}");
    }
}
