//! Rules of containers and their volumes: each case is a spec with its expected problems, none for a valid
//! one.

use super::spec::{bad, bad_one, good, one};

#[test]
fn images_and_policies_are_validated() {
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
fn ports_are_validated() {
    bad_one(
        "ports: [{containerPort: 0}, {containerPort: 70000, hostPort: -1, hostIP: x, protocol: tcp, name: -}, {containerPort: 1, name: a}, {containerPort: 2, name: a}]",
        &[
            "ports[0].containerPort: \"0\" must be 1 to 65535",
            "ports[1].name: \"-\" must be 1 to 15",
            "ports[1].containerPort: \"70000\" must",
            "ports[1].hostPort: \"-1\" must",
            "ports[1].hostIP: \"x\" must",
            "ports[1].protocol: \"tcp\" must be one of TCP, UDP, SCTP",
            "ports[3].name: \"a\" must be unique",
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
fn variables_are_validated() {
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
fn volumes_and_mounts_are_validated() {
    bad(
        "volumes: [{name: A}, {name: v}, {name: v}, {name: w, emptyDir: {}, hostPath: {path: /}}, {name: x, emptyDir: {medium: Disk, sizeLimit: -1}}, {name: y, emptyDir: {sizeLimit: much}}]",
        &[
            "spec.volumes[0].name: \"A\" must be a DNS label",
            "spec.volumes[2].name: \"v\" must be unique",
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
            "spec.containers[0].volumeMounts[1].mountPath: \"/a\" must be unique",
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
fn hooks_are_validated() {
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
fn security_contexts_are_validated() {
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
