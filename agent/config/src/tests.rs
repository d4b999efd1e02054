//! The whole way from text and flags to a configuration or its problems.

mod layers;

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn read(body: &str) -> Result<Config, ConfigError> {
    node::tests::read(body)
}

fn problems(body: &str) -> Vec<String> {
    match read(body) {
        Err(ConfigError::Invalid { problems, .. }) => problems.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn defaults() {
    let config = read("").unwrap();
    assert_eq!(config.socket, Path::new("/run/nodewarden/nodewarden.sock"));
    assert_eq!(config.http_address.to_string(), "127.0.0.1:10350");
    assert_eq!(config.state_dir, Path::new("/var/lib/nodewarden"));
    assert_eq!((config.max_cgroups, config.ring_bytes), (4096, 1 << 20));
    assert_eq!((config.retention, config.sample), (Duration::from_secs(300), Duration::from_secs(10)));
    assert_eq!((config.journal.file_bytes, config.journal.files), (16 << 20, 4));
    assert_eq!(config, load(None, None, &Overrides::default()).unwrap());
    assert_eq!((config.node, config.pods), (NodeSettings::default(), PodSettings::default()));
    assert_eq!(config.reconcile, Duration::from_secs(60));
}

#[test]
fn the_sample_has_the_defaults() {
    let text = include_str!("../../../deploy/config.yaml");
    let sample = parse("deploy/config.yaml", text, &Overrides::default()).unwrap();
    assert_eq!(sample, load(None, None, &Overrides::default()).unwrap());
    // What is commented out can be taken in.
    let commented =
        |line: &&str| line.starts_with("# ") && line.split(' ').nth(1).is_some_and(|w| w.ends_with(':'));
    let keys: String = text
        .lines()
        .filter(commented)
        .filter(|line| !line.contains("config.yaml:"))
        .map(|line| format!("{}\n", line.trim_start_matches("# ")))
        .collect();
    let body = format!("{HEAD}cgroupRoot: /\n{keys}");
    parse("the keys in comments", &body, &Overrides::default()).unwrap();
}

/// The keys that may stand in a mapping, as the message about an unknown one lists them.
fn keys_of(section: &str) -> Vec<String> {
    let nested =
        section.rsplit('.').fold("qqqqqqqqqq: 1".to_owned(), |inner, key| format!("{key}: {{{inner}}}"));
    let message = problems(&nested).remove(0);
    let (_, list) = message.split_once("expected one of ").unwrap_or_else(|| panic!("{message}"));
    list.split(", ").map(str::to_owned).collect()
}

/// The keys of a mapping in a file, also those that are commented out.
fn keys_in(text: &str, section: &str) -> Vec<String> {
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut keys = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let entry = line.trim_start().trim_start_matches("# ");
        let Some((key, _)) =
            entry.split_once(':').filter(|(key, _)| key.bytes().all(|b| b.is_ascii_alphanumeric()))
        else {
            continue;
        };
        path.retain(|(other, _)| *other < indent);
        let place = path.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(".");
        if place == section {
            keys.push(key.to_owned());
        }
        path.push((indent, key.to_owned()));
    }
    keys
}

#[test]
fn the_sample_has_every_key_of_ours() {
    let text = include_str!("../../../deploy/config.yaml");
    for section in [
        "nodewarden",
        "nodewarden.journal",
        "nodewarden.kubernetes",
        "nodewarden.devices",
        "nodewarden.probes",
        "nodewarden.gc",
        "nodewarden.eviction",
        "nodewarden.throttle",
        "nodewarden.throttle.cpu",
        "nodewarden.throttle.memory",
        "nodewarden.augment",
        "nodewarden.exclusiveCpus",
    ] {
        let there = keys_in(text, section);
        let missing: Vec<String> = keys_of(section).into_iter().filter(|key| !there.contains(key)).collect();
        assert!(missing.is_empty(), "{section}: {missing:?}");
    }
}

/// The configuration in the manifest of a DaemonSet.
fn config_of(manifests: &str) -> Config {
    let documents =
        manifests.split("\n---\n").map(|one| serde_yaml_ng::from_str::<serde_yaml_ng::Value>(one).unwrap());
    let map = documents.into_iter().find(|one| one["kind"] == "ConfigMap").expect("a ConfigMap");
    parse("config.yaml", map["data"]["config.yaml"].as_str().expect("a text"), &Overrides::default()).unwrap()
}

#[test]
fn the_daemonsets_have_a_valid_configuration() {
    let observe = config_of(include_str!("../../../deploy/daemonset.yaml"));
    assert_eq!(observe.mode, Mode::Observe);
    let augment = config_of(include_str!("../../../deploy/augment.yaml"));
    assert_eq!((augment.mode, augment.kubernetes.in_cluster), (Mode::Augment, true));
    let of_the_node = |path: &str| format!("/proc/1/root{path}").into();
    let expected = AugmentSettings {
        kubelet_config: of_the_node("/var/lib/kubelet/config.yaml"),
        pod_resources_socket: of_the_node("/var/lib/kubelet/pod-resources/kubelet.sock"),
        device_plugin_directory: of_the_node("/var/lib/kubelet/device-plugins"),
        host_root: of_the_node(""),
        ..AugmentSettings::of(Mode::Augment)
    };
    assert_eq!(augment.augment, expected, "its defaults: everything is audited");
    assert!(!augment.eviction.own_thresholds, "they are the kubelet's");
}

/// Those of the kubelet's keys that are read here.
#[test]
fn the_sample_has_every_key_of_the_kubelet_that_has_an_effect() {
    let there = keys_in(include_str!("../../../deploy/config.yaml"), "");
    let effective =
        keys::all().filter(|key| matches!(key.meaning, keys::Meaning::Done(_)) && !key.path.contains('.'));
    // Named where nodewarden's own key is, and those of the reserved cgroups where they are required.
    let elsewhere = ["containerRuntimeEndpoint", "kubeReservedCgroup", "systemReservedCgroup"];
    let missing: Vec<&str> = effective
        .map(|key| key.path)
        .filter(|key| !elsewhere.contains(key) && !there.iter().any(|own| own == key))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_kubelets_file_is_read_as_it_is() {
    let config = read(
        "syncFrequency: 1m\nmaxPods: 50\nfeatureGates: {MemoryQoS: true, RotateKubeletServerCertificate: true}\n\
         containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n",
    )
    .unwrap();
    let ignored: Vec<&str> = config.ignored.iter().map(|own| own.key.as_str()).collect();
    assert_eq!(ignored, ["featureGates.RotateKubeletServerCertificate", "syncFrequency"]);
    assert_eq!((config.node.max_pods, config.node.memory_qos), (50, true));
    let endpoint = config.runtime_endpoint.unwrap();
    assert_eq!(endpoint.path(), Path::new("/run/containerd/containerd.sock"));
}

/// What kubeadm 1.36 writes into /var/lib/kubelet/config.yaml: everything that is not set is there as zero.
#[test]
fn kubeadms_file_is_read_as_it_is() {
    let config = read(
        "authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///var/run/containerd/containerd.sock
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging:
  flushFrequency: 0
  options: {json: {infoBufferSize: '0'}, text: {infoBufferSize: '0'}}
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
",
    )
    .unwrap();
    let ignored: Vec<&str> = config.ignored.iter().map(|own| own.key.as_str()).collect();
    assert_eq!(
        ignored,
        ["logging.flushFrequency", "logging.options", "syncFrequency", "volumeStatsAggPeriod"]
    );
}

#[test]
fn the_agents_own_endpoint_overrides_the_kubelets() {
    let config = read("containerRuntimeEndpoint: unix:///a\nnodewarden: {runtimeEndpoint: /b}").unwrap();
    assert_eq!(config.runtime_endpoint.unwrap().to_string(), "unix:///b");
    assert_eq!(read("containerRuntimeEndpoint: ''").unwrap().runtime_endpoint, None);
}

#[test]
fn one_problem_each() {
    for (body, expected) in [
        ("nodewarden: {mode: watch}", "nodewarden.mode: watch: expected observe, augment or manage"),
        (
            "nodewarden: {socket: run/x}",
            "nodewarden.socket: run/x: expected an absolute path of at most 103 bytes",
        ),
        (
            "nodewarden: {maxCgroups: 63}",
            "nodewarden.maxCgroups: 63: expected a whole number from 64 to 65535",
        ),
        (
            "nodewarden: {maxCgroups: 65536}",
            "nodewarden.maxCgroups: 65536: expected a whole number from 64 to 65535",
        ),
        (
            "nodewarden: {maxCgroups: many}",
            "nodewarden.maxCgroups: many: expected a whole number from 64 to 65535",
        ),
        (
            "nodewarden: {sampleSeconds: 0}",
            "nodewarden.sampleSeconds: 0: expected a whole number from 1 to 3600",
        ),
        ("nodewarden: {httpAllowRemote: maybe}", "nodewarden.httpAllowRemote: maybe: expected true or false"),
        (
            "nodewarden: {nodeName: Big_One}",
            "nodewarden.nodeName: Big_One: expected a DNS name in lower case of at most 253 bytes",
        ),
        (
            "nodewarden: {runtimeEndpoint: 'tcp://1.2.3.4:5'}",
            "nodewarden.runtimeEndpoint: tcp://1.2.3.4:5: expected the runtime's Unix socket as unix:///path",
        ),
        (
            "nodewarden: {journal: {files: 0}}",
            "nodewarden.journal.files: 0: expected a whole number from 1 to 100",
        ),
        (
            "nodewarden: {httpAllowedHosts: ['a.example:80']}",
            "nodewarden.httpAllowedHosts: a.example:80: expected DNS names without a port, like agents.example.com or \
             *.example.com",
        ),
        (
            "nodewarden: {httpAllowedHosts: ['*']}",
            "nodewarden.httpAllowedHosts: *: expected DNS names without a port, like agents.example.com or *.example.com",
        ),
        ("nodewarden: {journal: 5}", "nodewarden.journal: 5: expected a mapping"),
        (
            "nodewarden: {journal: {file: 0}}",
            "nodewarden.journal.file: unknown key: expected a known key (did you mean files?)",
        ),
        (
            "nodewarden: {Socket: /a}",
            "nodewarden.Socket: unknown key: expected a known key (did you mean socket?)",
        ),
        (
            "maxpods: 3",
            "maxpods: unknown key: expected a key of KubeletConfiguration (did you mean maxPods?)",
        ),
        ("colour: red", "colour: unknown key: expected a key of KubeletConfiguration or nodewarden"),
        ("nodewarden: []", "nodewarden: a list: expected a mapping"),
    ] {
        assert_eq!(problems(body), [expected], "{body}");
    }
    for body in
        ["nodewarden: {ringBytes: 5000}", "nodewarden: {ringBytes: 2048}", "nodewarden: {ringBytes: 1Gi}"]
    {
        assert!(problems(body)[0].contains("expected a power of two of bytes from"), "{body}");
    }
}

#[test]
fn all_problems_at_once_in_the_message() {
    let error = parse(
        "/etc/x.yaml",
        "kind: Pod\nnope: 1\nnodewarden:\n  ringBytes: 3\n  journal: {files: -1}\n",
        &Overrides { socket: Some("x".into()), ..Overrides::default() },
    )
    .unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("/etc/x.yaml is not valid:\n"), "{text}");
    for part in [
        "apiVersion: missing: expected kubelet.config.k8s.io/v1beta1",
        "kind: Pod: expected KubeletConfiguration",
        "nope: unknown key",
        "nodewarden.ringBytes: 3",
        "nodewarden.journal.files: -1",
        "--socket: x: expected an absolute path",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn remote_address_needs_consent() {
    assert!(problems("nodewarden: {httpAddress: '0.0.0.0:80'}")[0].contains("httpAllowRemote: true"));
    assert!(read("nodewarden: {httpAddress: '0.0.0.0:80', httpAllowRemote: true}").is_ok());
    assert!(read("nodewarden: {httpAddress: '[::1]:80'}").is_ok());
    let flags = Overrides { http_address: Some("10.0.0.1:1".into()), ..Overrides::default() };
    assert!(load(None, None, &flags).unwrap_err().to_string().contains("--http-address: 10.0.0.1:1"));
}

#[test]
fn flags_override() {
    let flags = Overrides {
        socket: Some("/tmp/a.sock".into()),
        mode: Some("observe".into()),
        state_dir: Some("/tmp/s".into()),
        ..Overrides::default()
    };
    let config =
        parse("f", &format!("{HEAD}nodewarden: {{mode: manage, socket: /b, sampleSeconds: 3}}"), &flags)
            .unwrap();
    assert_eq!((config.socket.as_path(), config.mode), (Path::new("/tmp/a.sock"), Mode::Observe));
    assert_eq!(config.journal_dir(), Path::new("/tmp/s/journal"));
    assert_eq!(config.sample.as_secs(), 3);
}

#[test]
fn sizes_take_suffixes() {
    let config =
        read("nodewarden: {ringBytes: 1Mi, journal: {fileBytes: 128Ki, memoryBytes: 65536}}").unwrap();
    assert_eq!((config.ring_bytes, config.journal.file_bytes), (1 << 20, 128 << 10));
}

#[test]
fn what_is_shown_reads_back_the_same() {
    let config = read(
        "nodewarden: {httpAddress: '[::]:1', httpAllowRemote: true, nodeName: '1234', runtimeEndpoint: 'unix:///a b', \
         journal: {files: 7}, socket: '/x: y', httpAllowedHosts: [A.example, '*.svc']}",
    )
    .unwrap();
    assert_eq!(config.http_allowed_hosts, ["a.example", "*.svc"]);
    assert_eq!(parse("again", &config.to_yaml(), &Overrides::default()).unwrap(), config);
}

/// As in manifests: no alias is followed often, and nothing is nested.
#[test]
fn aliases_that_multiply_a_long_list_are_refused() {
    let words = vec!["x"; 10_000].join(",");
    let body = format!("x-big: &big [{words}]\nx-all: [{}]\n", vec!["*big"; 10_000].join(","));
    let begun = std::time::Instant::now();
    let expected = "aliases (*name) expand the file to more than 67108864 bytes";
    let error = read(&body).unwrap_err();
    assert_eq!(error.to_string(), format!("test.yaml: {expected}"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("10-big.conf");
    std::fs::write(&file, format!("{HEAD}{body}")).unwrap();
    let error = load(None, Some(dir.path()), &Overrides::default()).unwrap_err().to_string();
    assert!(error.contains("10-big.conf") && error.contains(expected), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    // A few are fine.
    let few = "x-few: &few [a, b]\nx-more: [*few, *few]\n";
    assert!(!read(few).map_or_else(|error| error.to_string(), |_| String::new()).contains("aliases"));
}

#[test]
fn no_yaml_and_no_file() {
    assert!(matches!(parse("f", "a: [", &Overrides::default()), Err(ConfigError::Yaml { .. })));
    assert!(matches!(parse("f", "just text", &Overrides::default()), Err(ConfigError::Invalid { .. })));
    let missing = load(Some(Path::new("/nonexistent/x.yaml")), None, &Overrides::default()).unwrap_err();
    assert!(missing.to_string().contains("/nonexistent/x.yaml"));
}

proptest! {
    #[test]
    fn never_panics(text in "(?s)[ -~\n]{0,200}") {
        let _ = parse("f", &format!("{HEAD}nodewarden:\n{text}"), &Overrides::default());
        let _ = parse("f", &text, &Overrides::default());
    }
}
