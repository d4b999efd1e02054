//! Rules of the whole manifest: each case is a spec that is taken, or what is said of it.

use serde_json::{Value, json};

use super::{check, pod};

fn spec(yaml: &str) -> Value {
    let mut spec: Value = serde_yaml_ng::from_str(yaml).expect(yaml);
    let spec_of = spec.as_object_mut().expect("a spec");
    spec_of.entry("containers").or_insert_with(|| json!([{"name": "c"}]));
    pod(spec)
}

/// A spec with one container that has these fields.
fn one(yaml: &str) -> String {
    format!("containers: [{{name: c, {yaml}}}]")
}

#[track_caller]
fn good(yaml: &str) {
    check(spec(yaml), &[]);
}

#[track_caller]
fn bad(yaml: &str, expected: &[&str]) {
    check(spec(yaml), expected);
}

#[track_caller]
fn bad_one(yaml: &str, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|e| format!("spec.containers[0].{e}")).collect();
    check(spec(&one(yaml)), &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn what_needs_a_cluster_is_refused() {
    for (yaml, expected) in [
        ("serviceAccountName: default", "spec.serviceAccountName: \"default\" must not be set"),
        ("serviceAccount: x", "spec.serviceAccount: \"x\" must not be set"),
        ("runtimeClassName: gvisor", "spec.runtimeClassName: \"gvisor\" must not be set"),
        ("hostUsers: false", "spec.hostUsers: \"false\" must be true or left out"),
        ("imagePullSecrets: [{name: s}]", "spec.imagePullSecrets[0]: \"s\" needs a cluster"),
        ("resourceClaims: [{name: r}]", "spec.resourceClaims[0]: \"r\" needs a cluster"),
        ("readinessGates: [{conditionType: a}]", "spec.readinessGates[0]: \"a\" needs a cluster"),
        ("schedulingGates: [{name: g}]", "spec.schedulingGates[0]: \"g\" needs a cluster"),
        ("activeDeadlineSeconds: 5", "spec.activeDeadlineSeconds: \"5\" must not be set"),
        ("os: {name: windows}", "spec.os.name: \"windows\" must be linux"),
        ("securityContext: {windowsOptions: {}}", "spec.securityContext.windowsOptions: must not be set"),
    ] {
        bad(yaml, &[expected]);
    }
    for (yaml, expected) in [
        ("envFrom: [{configMapRef: {name: m}}]", "envFrom[0].configMapRef: \"m\" needs a cluster"),
        ("envFrom: [{secretRef: {name: s}}]", "envFrom[0].secretRef: \"s\" needs a cluster"),
        (
            "env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: k, optional: true}}}]",
            "env[0].valueFrom.configMapKeyRef: \"m\" needs a cluster",
        ),
        (
            "env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
            "env[0].valueFrom.secretKeyRef: \"s\" needs a cluster",
        ),
        (
            "env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]",
            "env[0].valueFrom.fileKeyRef: \"k\" must not be set",
        ),
        ("volumeDevices: [{name: d, devicePath: /d}]", "volumeDevices[0]: \"d\" needs a cluster"),
        ("resources: {claims: [{name: r}]}", "resources.claims[0]: \"r\" needs a cluster"),
    ] {
        bad_one(yaml, &[expected]);
    }
}

#[test]
fn volumes_of_other_kinds_are_refused() {
    for (source, field) in [
        ("configMap: {name: m}", "configMap"),
        ("secret: {secretName: s}", "secret"),
        ("projected: {sources: []}", "projected"),
        ("persistentVolumeClaim: {claimName: c}", "persistentVolumeClaim"),
        ("csi: {driver: d}", "csi"),
        ("ephemeral: {}", "ephemeral"),
        ("nfs: {server: s, path: /}", "nfs"),
        ("image: {reference: r}", "image"),
        ("gitRepo: {repository: r}", "gitRepo"),
    ] {
        bad(&format!("volumes: [{{name: v, {source}}}]"), &[&format!("spec.volumes[0].{field}: ")]);
    }
    good(
        "volumes: [{name: a}, {name: b, emptyDir: {}}, {name: c, hostPath: {path: /x}}, {name: d, downwardAPI: {}}]",
    );
}

#[test]
fn what_only_a_scheduler_reads_is_not_judged() {
    good(
        "nodeSelector: {a: b}\nnodeName: elsewhere\nschedulerName: mine\ntolerations: [{operator: Exists}]\n\
         affinity: {nodeAffinity: {}}\ntopologySpreadConstraints: []\npreemptionPolicy: Never\n\
         automountServiceAccountToken: false\nenableServiceLinks: true\nos: {name: linux}",
    );
}

#[test]
fn the_pod_as_a_whole() {
    good("restartPolicy: OnFailure\nhostPID: true\nhostIPC: true\nterminationGracePeriodSeconds: 0");
    bad(
        "restartPolicy: Sometimes",
        &["spec.restartPolicy: \"Sometimes\" must be one of Always, OnFailure, Never"],
    );
    bad(
        "hostPID: true\nshareProcessNamespace: true",
        &["spec.shareProcessNamespace: \"true\" must not be true together with spec.hostPID"],
    );
    bad(
        "hostname: A.b\nsubdomain: '-'",
        &["spec.hostname: \"A.b\" must be", "spec.subdomain: \"-\" must be"],
    );
    bad(
        "hostnameOverride: a_b\nhostNetwork: true\nsetHostnameAsFQDN: true",
        &[
            "spec.hostnameOverride: \"a_b\" must be a DNS",
            "spec.hostnameOverride: \"a_b\" must not be set together with spec.hostN",
            "spec.hostnameOverride: \"a_b\" must not be set together with spec.setH",
        ],
    );
    good("hostAliases: [{ip: 1.2.3.4, hostnames: [a, b.c]}, {ip: '::1'}]");
    bad(
        "hostAliases: [{ip: x, hostnames: [A]}]",
        &[
            "spec.hostAliases[0].ip: \"x\" must be an IP",
            "spec.hostAliases[0].hostnames[0]: \"A\" must be a DNS",
        ],
    );
}

#[test]
fn dns() {
    good(
        "dnsPolicy: None\ndnsConfig: {nameservers: [1.1.1.1], searches: [., a.b., _x.c], options: [{name: ndots, value: '2'}]}",
    );
    bad("dnsPolicy: First", &["spec.dnsPolicy: \"First\" must be one of"]);
    bad("dnsPolicy: None", &["spec.dnsConfig.nameservers: is required"]);
    bad(
        "dnsConfig: {nameservers: [a, '1.1.1.1', '::1', '2.2.2.2'], searches: [A_, ''], options: [{value: x}]}",
        &[
            "spec.dnsConfig.nameservers: \"4\" must be at most 3",
            "spec.dnsConfig.nameservers[0]: \"a\" must be an IP",
            "spec.dnsConfig.searches[0]: \"A_\" must be a DNS",
            "spec.dnsConfig.searches[1]: must be a DNS",
            "spec.dnsConfig.options[0].name: is required",
        ],
    );
    let many = (0..33).map(|n| format!("d{n}")).collect::<Vec<_>>().join(", ");
    bad(
        &format!("dnsConfig: {{searches: [{many}]}}"),
        &["spec.dnsConfig.searches: \"33\" must be at most 32"],
    );
    let long = vec!["a".repeat(63); 31].join(".x, ");
    let long = format!("dnsConfig: {{searches: [{long}, {}]}}", "b".repeat(60));
    bad(&long, &["spec.dnsConfig.searches: \"2104\" must be at most 2048"]);
}

#[test]
fn images_and_policies() {
    bad_one("image: ''", &["image: is required"]);
    bad_one("image: ' i'", &["image: \" i\" must not begin"]);
    bad_one("imagePullPolicy: Sometimes", &["imagePullPolicy: \"Sometimes\" must be one of"]);
    bad_one(
        "terminationMessagePolicy: x",
        &["terminationMessagePolicy: \"x\" must be one of File, Fallback"],
    );
    let policies = "resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}, {resourceName: cpu, restartPolicy: x}, {resourceName: pods, restartPolicy: NotRequired}]";
    bad_one(
        policies,
        &[
            "resizePolicy[1].resourceName: \"cpu\" must be named once",
            "resizePolicy[1].restartPolicy: \"x\" must be one of",
            "resizePolicy[2].resourceName: \"pods\" must be one of cpu, memory",
        ],
    );
    bad(
        &format!(
            "restartPolicy: Never\n{}",
            one("resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]")
        ),
        &["spec.containers[0].resizePolicy[0].restartPolicy: \"RestartContainer\" must be NotRequired"],
    );
}

#[test]
fn ports() {
    bad_one(
        "ports: [{containerPort: 0}, {containerPort: 70000, hostPort: -1, hostIP: x, protocol: tcp, name: -}, {containerPort: 1, name: a}, {containerPort: 2, name: a}]",
        &[
            "ports[0].containerPort: \"0\" must be 1 to 65535",
            "ports[1].name: \"-\" must be 1 to 15",
            "ports[1].containerPort: \"70000\" must",
            "ports[1].hostPort: \"-1\" must",
            "ports[1].hostIP: \"x\" must",
            "ports[1].protocol: \"tcp\" must be one of TCP, UDP, SCTP",
            "ports[3].name: \"a\" must be no other",
        ],
    );
    bad(
        "hostNetwork: true\ncontainers: [{name: c, ports: [{containerPort: 80, hostPort: 8080}]}]",
        &["spec.containers[0].ports[0].hostPort: \"8080\" must be the containerPort, 80"],
    );
    let two = |first: &str, second: &str| {
        format!("containers: [{{name: a, ports: [{first}]}}, {{name: b, ports: [{second}]}}]")
    };
    bad(
        &two("{containerPort: 1, hostPort: 80}", "{containerPort: 2, hostPort: 80}"),
        &["spec.containers[1].ports[0].hostPort: \"80\" must be asked for only once"],
    );
    good(&two("{containerPort: 1, hostPort: 80}", "{containerPort: 2, hostPort: 80, protocol: UDP}"));
    good(&two(
        "{containerPort: 1, hostPort: 80, hostIP: 1.1.1.1}",
        "{containerPort: 2, hostPort: 80, hostIP: 1.1.1.2}",
    ));
}

#[test]
fn variables() {
    let field =
        |path: &str| format!("env: [{{name: A, valueFrom: {{fieldRef: {{fieldPath: \"{path}\"}}}}}}]");
    for path in ["metadata.name", "status.podIPs", "metadata.labels['a/b']", "metadata.annotations['A.b/c']"]
    {
        good(&one(&field(path)));
    }
    for path in ["metadata.labels", "spec.restartPolicy", "metadata.labels[a]", "status.phase"] {
        bad_one(&field(path), &[&format!("env[0].valueFrom.fieldRef.fieldPath: \"{path}\" must be a field")]);
    }
    bad_one(
        &field("metadata.labels['a b']"),
        &["env[0].valueFrom.fieldRef.fieldPath: \"metadata.labels['a b']\" must name a key"],
    );
    let resource = |text: &str| format!("env: [{{name: A, valueFrom: {{resourceFieldRef: {{{text}}}}}}}]");
    for text in [
        "resource: limits.cpu, divisor: 1m",
        "resource: requests.memory, divisor: 1Mi",
        "resource: limits.hugepages-2Mi",
        "resource: limits.ephemeral-storage, divisor: '0'",
    ] {
        good(&one(&resource(text)));
    }
    bad_one(
        &resource("resource: limits.gpu"),
        &["env[0].valueFrom.resourceFieldRef.resource: \"limits.gpu\" must be limits"],
    );
    bad_one(
        &resource("resource: limits.cpu, divisor: 1k"),
        &["env[0].valueFrom.resourceFieldRef.divisor: \"1k\" must be one of 1, 1m"],
    );
    bad_one(
        &resource("resource: limits.memory, divisor: 2Mi"),
        &["env[0].valueFrom.resourceFieldRef.divisor: \"2Mi\" must be one of"],
    );
    bad_one(
        "env: [{name: ''}, {name: 'A=B', value: x}, {name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}, {name: B, valueFrom: {}}]",
        &[
            "env[0].name: is required",
            "env[1].name: \"A=B\" must be printable",
            "env[2].valueFrom: must not be set together with value",
            "env[3].valueFrom: must have",
        ],
    );
}

#[test]
fn volumes_and_mounts() {
    bad(
        "volumes: [{name: A}, {name: v}, {name: v}, {name: w, emptyDir: {}, hostPath: {path: /}}, {name: x, emptyDir: {medium: Disk, sizeLimit: -1}}, {name: y, emptyDir: {sizeLimit: much}}]",
        &[
            "spec.volumes[0].name: \"A\" must be a DNS label",
            "spec.volumes[2].name: \"v\" must be no other",
            "spec.volumes[3]: \"w\" must have one kind only",
            "spec.volumes[4].emptyDir.medium: \"Disk\" must be Memory",
            "spec.volumes[4].emptyDir.sizeLimit: \"-1\" must not be negative",
            "spec.volumes[5].emptyDir.sizeLimit: \"much\" is not a quantity",
        ],
    );
    good(
        "volumes: [{name: a, emptyDir: {medium: HugePages-2Mi}}, {name: b, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]",
    );
    bad(
        "volumes: [{name: a, hostPath: {path: ''}}, {name: b, hostPath: {path: a/../b, type: Dir}}]",
        &[
            "spec.volumes[0].hostPath.path: is required",
            "spec.volumes[1].hostPath.path: \"a/../b\" must be an absolute path",
            "spec.volumes[1].hostPath.path: \"a/../b\" must not contain '..'",
            "spec.volumes[1].hostPath.type: \"Dir\" must be one of DirectoryOrCreate",
        ],
    );
    bad(
        "volumes: [{name: d, downwardAPI: {defaultMode: 512, items: [{path: /a, fieldRef: {fieldPath: metadata.name}}, {path: ../b, fieldRef: {fieldPath: status.podIP}}, {path: ..c, resourceFieldRef: {resource: limits.cpu}}, {path: d, mode: -1}]}}]",
        &[
            "spec.volumes[0].downwardAPI.defaultMode: \"512\" must be 0 to 511",
            "spec.volumes[0].downwardAPI.items[0].path: \"/a\" must be a relative path",
            "spec.volumes[0].downwardAPI.items[1].path: \"../b\" must not contain '..'",
            "spec.volumes[0].downwardAPI.items[1].fieldRef.fieldPath: \"status.podIP\" must be a field",
            "spec.volumes[0].downwardAPI.items[2].path: \"..c\" must not begin with '..'",
            "spec.volumes[0].downwardAPI.items[2].resourceFieldRef.containerName: must be a container",
            "spec.volumes[0].downwardAPI.items[3].mode: \"-1\" must be",
            "spec.volumes[0].downwardAPI.items[3]: must have fieldRef",
        ],
    );
    let mounts = |text: &str| format!("volumes: [{{name: v}}]\n{}", one(&format!("volumeMounts: [{text}]")));
    good(&mounts("{name: v, mountPath: /a, subPath: b/c}, {name: v, mountPath: /b, subPathExpr: $(A)}"));
    bad(
        &mounts(
            "{name: '', mountPath: /a}, {name: x, mountPath: /a}, {name: v, mountPath: ''}, {name: v, mountPath: 'a:b', subPath: /x, subPathExpr: ../y}",
        ),
        &[
            "spec.containers[0].volumeMounts[0].name: is required",
            "spec.containers[0].volumeMounts[1].name: \"x\" must be a volume of the pod",
            "spec.containers[0].volumeMounts[1].mountPath: \"/a\" must be no other",
            "spec.containers[0].volumeMounts[2].mountPath: is required",
            "spec.containers[0].volumeMounts[3].mountPath: \"a:b\" must not contain ':'",
            "spec.containers[0].volumeMounts[3].subPath: \"/x\" must be a relative path",
            "spec.containers[0].volumeMounts[3].subPathExpr: \"../y\" must not contain '..'",
            "spec.containers[0].volumeMounts[3].subPathExpr: \"../y\" must not be set together with subPath",
        ],
    );
    bad(
        &mounts(
            "{name: v, mountPath: /a, mountPropagation: Bidirectional}, {name: v, mountPath: /b, recursiveReadOnly: Enabled, mountPropagation: HostToContainer}",
        ),
        &[
            "spec.containers[0].volumeMounts[0].mountPropagation: \"Bidirectional\" must be of a privileged",
            "spec.containers[0].volumeMounts[1].recursiveReadOnly: \"Enabled\" needs readOnly",
            "spec.containers[0].volumeMounts[1].recursiveReadOnly: \"Enabled\" must be without mountPropagation",
        ],
    );
}

#[test]
fn hooks() {
    good(&one("lifecycle: {postStart: {exec: {command: [a]}}, preStop: {sleep: {seconds: 30}}}"));
    good(&one("ports: [{name: web, containerPort: 80}], lifecycle: {preStop: {httpGet: {port: web}}}"));
    bad_one(
        "lifecycle: {postStart: {}, preStop: {exec: {}, sleep: {seconds: 31}}}",
        &[
            "lifecycle.postStart: must have one of exec, httpGet, sleep",
            "lifecycle.preStop: must have only one of",
            "lifecycle.preStop.exec.command: is required",
            "lifecycle.preStop.sleep.seconds: \"31\" must be 0 to 30",
        ],
    );
    bad_one(
        "lifecycle: {postStart: {httpGet: {port: web, scheme: FTP, httpHeaders: [{name: 'a b', value: x}]}}, preStop: {tcpSocket: {port: 1}}}",
        &[
            "lifecycle.postStart.httpGet.scheme: \"FTP\" must be",
            "lifecycle.postStart.httpGet.port: \"web\" must be the name",
            "lifecycle.postStart.httpGet.httpHeaders[0].name: \"a b\" must be letters",
            "lifecycle.preStop.tcpSocket: must not be set",
        ],
    );
    bad_one("lifecycle: {stopSignal: SIGFOO}", &["lifecycle.stopSignal: \"SIGFOO\" must be a signal"]);
    bad_one("lifecycle: {stopSignal: SIGUSR1}", &["lifecycle.stopSignal: \"SIGUSR1\" needs spec.os.name"]);
    good(&format!("os: {{name: linux}}\n{}", one("lifecycle: {stopSignal: SIGUSR1}")));
    let init = "initContainers: [{name: i, lifecycle: {}, livenessProbe: {exec: {command: [a]}}}, {name: s, restartPolicy: Always, lifecycle: {preStop: {sleep: {seconds: 1}}}}]";
    bad(
        init,
        &[
            "spec.initContainers[0].lifecycle: must not be set for an init",
            "spec.initContainers[0].livenessProbe: must not be set",
        ],
    );
}

#[test]
fn security_contexts() {
    good(
        "securityContext: {runAsUser: 0, fsGroup: 7, supplementalGroups: [1], supplementalGroupsPolicy: Strict, fsGroupChangePolicy: Always, seccompProfile: {type: Localhost, localhostProfile: a/b.json}, appArmorProfile: {type: Unconfined}, sysctls: [{name: net/ipv4/tcp_syncookies, value: '1'}]}",
    );
    bad(
        "securityContext: {runAsUser: -1, runAsGroup: 2147483648, fsGroup: -1, supplementalGroups: [-1], supplementalGroupsPolicy: x, seccompProfile: {type: Localhost}, appArmorProfile: {type: x}}",
        &[
            "spec.securityContext.runAsUser: \"-1\" must be 0 to 2147483647",
            "spec.securityContext.runAsGroup: \"2147483648\" must",
            "spec.securityContext.fsGroup: \"-1\" must",
            "spec.securityContext.supplementalGroups[0]: \"-1\" must",
            "spec.securityContext.supplementalGroupsPolicy: \"x\" must be one of Merge, Strict",
            "spec.securityContext.seccompProfile.localhostProfile: is required",
            "spec.securityContext.appArmorProfile.type: \"x\" must be one of",
        ],
    );
    bad(
        "hostNetwork: true\nhostIPC: true\nsecurityContext: {sysctls: [{name: net.ipv4.tcp_rmem, value: '1'}, {name: kernel.shm_rmid_forced, value: '1'}, {name: vm.swappiness, value: '1'}, {name: vm/swappiness, value: '1'}]}",
        &[
            "spec.securityContext.sysctls[0].name: \"net.ipv4.tcp_rmem\" must not be set together with spec.hostNetwork",
            "spec.securityContext.sysctls[1].name: \"kernel.shm_rmid_forced\" must not be set together with spec.hostIPC",
            "spec.securityContext.sysctls[2].name: \"vm.swappiness\" must be a safe sysctl",
            "spec.securityContext.sysctls[3].name: \"vm/swappiness\" must be named once",
        ],
    );
    bad_one(
        "securityContext: {runAsUser: -1, privileged: true, allowPrivilegeEscalation: false, procMount: Unmasked, capabilities: {add: [CAP_SYS_ADMIN]}, seccompProfile: {type: Unconfined, localhostProfile: ../x}}",
        &[
            "securityContext.runAsUser: \"-1\" must",
            "securityContext.seccompProfile.localhostProfile: \"../x\" must only be set with type Localhost",
            "securityContext.procMount: \"Unmasked\" must be Default",
            "securityContext.allowPrivilegeEscalation: \"false\" must not be false together with privileged",
            "securityContext.allowPrivilegeEscalation: \"false\" must not be false together with capability",
        ],
    );
}

#[test]
fn labels_and_annotations() {
    let with = |labels: Value, annotations: Value| {
        let mut pod = spec("{}");
        pod["metadata"]["labels"] = labels;
        pod["metadata"]["annotations"] = annotations;
        pod
    };
    check(with(json!({"a.b/c": "x_y.z-1", "e": ""}), json!({"A/B": "any\nthing"})), &[]);
    check(
        with(json!({"a b": "", "c": "-"}), json!({"": "x", "big": "x".repeat(300_000)})),
        &[
            "metadata.labels: \"a b\" must be name",
            "metadata.labels[c]: \"-\" must be empty or",
            "metadata.annotations: must be name",
            "metadata.annotations: \"300004\" must be at most 262144",
        ],
    );
}
