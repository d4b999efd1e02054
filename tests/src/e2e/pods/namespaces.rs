//! Namespaces: a pod's own and the machine's, DNS and the hosts file.

use std::fs;

use serde_json::{Value, json};

use super::manifest::{STAY, merged, pod, shell};
use super::stage::Stage;
use super::{NEEDS, check};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("pod_namespaces", namespaces).timeout(120).needs(NEEDS),
    Test::new("pod_dns_and_hosts", names).timeout(120).needs(NEEDS),
    Test::new("pod_network", network).timeout(120).needs(&[
        Capability::Root,
        Capability::Cri,
        Capability::PodNetwork,
        Capability::MemoryCgroup,
        Capability::CpuCgroup,
        Capability::Loopback,
    ]),
];

const NAMES: [&str; 4] = ["net", "pid", "ipc", "uts"];

/// A namespace of this process.
fn ours(name: &str) -> Result<String, Failure> {
    let path = format!("/proc/self/ns/{name}");
    Ok(fs::read_link(&path).map_err(Failure::file(&path))?.display().to_string())
}

fn namespaces(context: &Context) -> Result<(), Failure> {
    let mut stage = Stage::new(context)?;
    let links = "for name in net pid ipc uts; do echo $name=`readlink /proc/self/ns/$name`; done; \
        echo processes=`ls -d /proc/[0-9]* | wc -l`; echo first=`tr '\\0' ' ' < /proc/1/cmdline`; echo done; ";
    let container = |name: &str| shell(name, &format!("{links}{STAY}"), json!({}));
    let with = |name: &str, more: Value| pod(name, merged(json!({ "containers": [container("c")] }), more));
    let two = shell("other", "exec sleep 4321", json!({}));
    stage.put([
        with("own", json!({})),
        with("pid", json!({ "hostPID": true })),
        with("ipc", json!({ "hostIPC": true })),
        // The other is there before this one looks.
        pod("shared", json!({ "shareProcessNamespace": true, "initContainers": [], "containers": [two, shell("c",
            &format!("while ! grep -q 4321 /proc/[0-9]*/cmdline; do sleep 0.1; done; echo sees=the-other; {links}{STAY}"),
            json!({}))] })),
    ])?;
    let shared_with =
        [("own", &["net"][..]), ("pid", &["net", "pid"]), ("ipc", &["net", "ipc"]), ("shared", &["net"])];
    for (name, shared) in shared_with {
        let seen = stage.up(name)?;
        let said = stage.told(&seen, "c")?;
        for namespace in NAMES {
            // With the machine's network its name belongs to it too.
            let expected = shared.contains(&namespace) || namespace == "uts";
            let same =
                said.get(namespace).is_some_and(|link| ours(namespace).is_ok_and(|ours| ours == *link));
            ensure!(
                same == expected,
                "pod {name}: {namespace} is {:?}, the machine's {}",
                said.get(namespace),
                ours(namespace)?
            );
        }
        let first = said.get("first").map(String::as_str).unwrap_or_default();
        let processes: u32 = said.get("processes").and_then(|n| n.parse().ok()).unwrap_or_default();
        match name {
            "pid" => ensure!(processes > 10, "pod {name} sees {processes} processes"),
            // Process 1 is the sandbox's.
            "shared" => {
                check(&said, &[("sees", "the-other")])?;
                ensure!(first.contains("pause") || first.contains("2147483647"), "process 1 is {first:?}");
            }
            _ => ensure!(
                processes < 10 && first.starts_with("/bin/sh"),
                "pod {name} sees {processes} and {first:?}"
            ),
        }
    }
    stage.finish()
}

/// On the machine's network: its resolver or what the pod says, its hosts file and the pod's own lines.
fn names(context: &Context) -> Result<(), Failure> {
    let resolv = context.temp.join("resolv.conf");
    fs::write(&resolv, "nameserver 192.0.2.53\nsearch node.test\noptions ndots:3\n")
        .map_err(Failure::file(&resolv))?;
    let kubelet =
        format!("resolvConf: {}\nclusterDNS: [192.0.2.10]\nclusterDomain: cluster.test\n", resolv.display());
    let mut stage = Stage::with(context, &kubelet, "")?;
    let show = "echo servers=`grep ^nameserver /etc/resolv.conf | cut -d ' ' -f 2`; \
        echo search=`grep ^search /etc/resolv.conf | cut -d ' ' -f 2-`; \
        echo options=`grep ^options /etc/resolv.conf | cut -d ' ' -f 2-`; \
        echo alias=`grep 192.0.2.7 /etc/hosts | tr '\\t' ' '`; echo localhost=`grep -c localhost /etc/hosts`; echo done; ";
    let with = |name: &str, more: Value| {
        pod(name, merged(json!({ "containers": [shell("c", &format!("{show}{STAY}"), json!({}))] }), more))
    };
    stage.put([
        with("node", json!({ "dnsPolicy": "Default" })),
        // ClusterFirst means Default on the machine's network.
        with("first", json!({ "dnsPolicy": "ClusterFirst" })),
        with("cluster", json!({ "dnsPolicy": "ClusterFirstWithHostNet" })),
        with("none", json!({ "dnsPolicy": "None", "dnsConfig": {
            "nameservers": ["192.0.2.99"], "searches": ["own.test"], "options": [{ "name": "timeout", "value": "7" }, { "name": "rotate" }] },
            "hostAliases": [{ "ip": "192.0.2.7", "hostnames": ["seven", "seven.test"] }] })),
        with("more", json!({ "dnsPolicy": "Default", "dnsConfig": { "nameservers": ["192.0.2.98"], "searches": ["more.test"] } })),
    ])?;
    let cluster = "default.svc.cluster.test svc.cluster.test cluster.test node.test";
    for (name, expected) in [
        (
            "node",
            &[("servers", "192.0.2.53"), ("search", "node.test"), ("options", "ndots:3"), ("alias", "")][..],
        ),
        ("first", &[("servers", "192.0.2.53"), ("search", "node.test")]),
        ("cluster", &[("servers", "192.0.2.10"), ("search", cluster), ("options", "ndots:5")]),
        (
            "none",
            &[
                ("servers", "192.0.2.99"),
                ("search", "own.test"),
                ("options", "timeout:7 rotate"),
                ("alias", "192.0.2.7 seven seven.test"),
            ],
        ),
        ("more", &[("servers", "192.0.2.53 192.0.2.98"), ("search", "node.test more.test")]),
    ] {
        let seen = stage.up(name)?;
        let said = stage.told(&seen, "c")?;
        check(&said, expected).map_err(|failure| Failure::Unexpected(format!("pod {name}: {failure}")))?;
        ensure!(said.get("localhost").is_some_and(|n| n != "0"), "pod {name} has no localhost");
    }
    stage.finish()
}

/// On a network of their own: addresses, names, and who reaches whom.
fn network(context: &Context) -> Result<(), Failure> {
    let mut stage = Stage::new(context)?;
    let show = "echo net=`readlink /proc/self/ns/net`; echo uts=`readlink /proc/self/ns/uts`; \
        echo name=`hostname`; echo ip=$POD_IP; echo hosts=`grep \"$POD_IP\" /etc/hosts | tr '\\t' ' '`; \
        mkdir /www; echo page > /www/index.html; httpd -p 8080 -h /www; echo done; ";
    let ip = json!({ "env": [{ "name": "POD_IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }] });
    let with = |name: &str, more: Value| {
        let usual =
            json!({ "hostNetwork": null, "containers": [shell("c", &format!("{show}{STAY}"), ip.clone())] });
        pod(name, merged(usual, more))
    };
    stage
        .put([with("web", json!({})), with("named", json!({ "hostname": "given", "subdomain": "below" }))])?;
    let web = stage.up("web")?;
    let address = web.text("/status/podIP").to_owned();
    ensure!(!address.is_empty() && address != web.text("/status/hostIP"), "the pod's address is {address:?}");
    let said = stage.told(&web, "c")?;
    let hosts = format!("{address} web");
    check(&said, &[("name", "web"), ("ip", &address), ("hosts", &hosts)])?;
    for namespace in ["net", "uts"] {
        ensure!(
            said.get(namespace).is_some_and(|link| *link != ours(namespace).unwrap_or_default()),
            "{namespace} is the machine's"
        );
    }
    let named = stage.up("named")?;
    check(&stage.told(&named, "c")?, &[("name", "given")])?;
    // From one pod to the other.
    let url = format!("http://{address}:8080/");
    let asks = pod(
        "asks",
        json!({ "hostNetwork": null, "restartPolicy": "Never",
        "containers": [shell("c", &format!("echo got=`wget -q -O - {url}`; echo done"), json!({}))] }),
    );
    stage.put([asks])?;
    let asked = stage.phase("asks", "Succeeded")?;
    check(&stage.told(&asked, "c")?, &[("got", "page")])?;
    stage.remove("web")?;
    stage.gone(&["web"])?;
    let left = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    ensure_eq!(left.matches(&format!(" {address} ")).count(), 0, "{address} is still this machine's");
    stage.finish()
}
