//! Namespaces of pods, their DNS configuration and hosts file.

use std::fs;

use serde_json::{Value, json};

use super::fixture::PodFixture;
use super::manifest::{STAY, merged, pod, shell};
use super::{NEEDS, NETWORK_NEEDS, check};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("pod_namespaces", namespaces).timeout(120).needs(NEEDS),
    Test::new("pod_dns_and_hosts", names).timeout(120).needs(NEEDS),
    Test::new("pod_network", network).timeout(120).needs(NETWORK_NEEDS),
];

const NAMES: [&str; 4] = ["net", "pid", "ipc", "uts"];

/// The link of a namespace of this process.
fn ours(name: &str) -> Result<String, Failure> {
    let path = format!("/proc/self/ns/{name}");
    Ok(fs::read_link(&path).map_err(Failure::file(&path))?.display().to_string())
}

/// A container has namespaces of its own, but those that its pod shares with the machine or among its
/// containers.
fn namespaces(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
    let links = "for name in net pid ipc uts; do echo $name=`readlink /proc/self/ns/$name`; done; \
        echo processes=`ls -d /proc/[0-9]* | wc -l`; echo first=`tr '\\0' ' ' < /proc/1/cmdline`; echo done; ";
    let container = |name: &str| shell(name, &format!("{links}{STAY}"), json!({}));
    let with = |name: &str, more: Value| pod(name, merged(json!({ "containers": [container("c")] }), more));
    let two = shell("other", "exec sleep 4321", json!({}));
    fixture.put([
        with("own", json!({})),
        with("pid", json!({ "hostPID": true })),
        with("ipc", json!({ "hostIPC": true })),
        // This container waits until the other one runs.
        pod("shared", json!({ "shareProcessNamespace": true, "initContainers": [], "containers": [two, shell("c",
            &format!("while ! grep -q 4321 /proc/[0-9]*/cmdline; do sleep 0.1; done; echo sees=the-other; {links}{STAY}"),
            json!({}))] })),
    ])?;
    let shared_with =
        [("own", &["net"][..]), ("pid", &["net", "pid"]), ("ipc", &["net", "ipc"]), ("shared", &["net"])];
    for (name, shared) in shared_with {
        let seen = fixture.wait_up(name)?;
        let printed = fixture.printed_values(&seen, "c")?;
        for namespace in NAMES {
            // A pod on the machine's network also has the machine's host name, so its UTS namespace.
            let expected = shared.contains(&namespace) || namespace == "uts";
            let same =
                printed.get(namespace).is_some_and(|link| ours(namespace).is_ok_and(|ours| ours == *link));
            ensure!(
                same == expected,
                "pod {name}: {namespace} is {:?}, the machine's {}",
                printed.get(namespace),
                ours(namespace)?
            );
        }
        let first = printed.get("first").map(String::as_str).unwrap_or_default();
        let processes: u32 = printed.get("processes").and_then(|n| n.parse().ok()).unwrap_or_default();
        match name {
            "pid" => ensure!(processes > 10, "pod {name} sees {processes} processes"),
            // Process 1 is the sandbox's pause process.
            "shared" => {
                check(&printed, &[("sees", "the-other")])?;
                ensure!(first.contains("pause") || first.contains("2147483647"), "process 1 is {first:?}");
            }
            _ => ensure!(
                processes < 10 && first.starts_with("/bin/sh"),
                "pod {name} sees {processes} processes, the first {first:?}"
            ),
        }
    }
    fixture.finish()
}

/// `dnsPolicy`, `dnsConfig` and `hostAliases` give a pod the kubelet's resolv.conf and hosts file.
fn names(context: &Context) -> Result<(), Failure> {
    let resolv = context.temp.join("resolv.conf");
    fs::write(&resolv, "nameserver 192.0.2.53\nsearch node.test\noptions ndots:3\n")
        .map_err(Failure::file(&resolv))?;
    let kubelet =
        format!("resolvConf: {}\nclusterDNS: [192.0.2.10]\nclusterDomain: cluster.test\n", resolv.display());
    let mut fixture = PodFixture::with_config(context, &kubelet, "")?;
    let show = "echo servers=`grep ^nameserver /etc/resolv.conf | cut -d ' ' -f 2`; \
        echo search=`grep ^search /etc/resolv.conf | cut -d ' ' -f 2-`; \
        echo options=`grep ^options /etc/resolv.conf | cut -d ' ' -f 2-`; \
        echo alias=`grep 192.0.2.7 /etc/hosts | tr '\\t' ' '`; echo localhost=`grep -c localhost /etc/hosts`; echo done; ";
    let with = |name: &str, more: Value| {
        pod(name, merged(json!({ "containers": [shell("c", &format!("{show}{STAY}"), json!({}))] }), more))
    };
    fixture.put([
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
        let seen = fixture.wait_up(name)?;
        let printed = fixture.printed_values(&seen, "c")?;
        check(&printed, expected).map_err(|failure| Failure::Unexpected(format!("pod {name}: {failure}")))?;
        ensure!(printed.get("localhost").is_some_and(|n| n != "0"), "pod {name} has no localhost");
    }
    fixture.finish()
}

/// Pods on the pod network have an address and host name of their own, reach each other, and give the address
/// back.
fn network(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
    let show = "echo net=`readlink /proc/self/ns/net`; echo uts=`readlink /proc/self/ns/uts`; \
        echo name=`hostname`; echo ip=$POD_IP; echo hosts=`grep \"$POD_IP\" /etc/hosts | tr '\\t' ' '`; \
        mkdir /www; echo page > /www/index.html; httpd -p 8080 -h /www; echo done; ";
    let ip = json!({ "env": [{ "name": "POD_IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }] });
    let with = |name: &str, more: Value| {
        let usual =
            json!({ "hostNetwork": null, "containers": [shell("c", &format!("{show}{STAY}"), ip.clone())] });
        pod(name, merged(usual, more))
    };
    fixture
        .put([with("web", json!({})), with("named", json!({ "hostname": "given", "subdomain": "below" }))])?;
    let web = fixture.wait_up("web")?;
    let address = web.text("/status/podIP").to_owned();
    ensure!(!address.is_empty() && address != web.text("/status/hostIP"), "the pod's address is {address:?}");
    let printed = fixture.printed_values(&web, "c")?;
    let hosts = format!("{address} web");
    check(&printed, &[("name", "web"), ("ip", &address), ("hosts", &hosts)])?;
    for namespace in ["net", "uts"] {
        ensure!(
            printed.get(namespace).is_some_and(|link| *link != ours(namespace).unwrap_or_default()),
            "{namespace} is the machine's"
        );
    }
    let named = fixture.wait_up("named")?;
    check(&fixture.printed_values(&named, "c")?, &[("name", "given")])?;
    // From one pod to the other.
    let url = format!("http://{address}:8080/");
    let asks = pod(
        "asks",
        json!({ "hostNetwork": null, "restartPolicy": "Never",
        "containers": [shell("c", &format!("echo got=`wget -q -O - {url}`; echo done"), json!({}))] }),
    );
    fixture.put([asks])?;
    let asked = fixture.wait_phase("asks", "Succeeded")?;
    check(&fixture.printed_values(&asked, "c")?, &[("got", "page")])?;
    fixture.remove("web")?;
    fixture.wait_gone(&["web"])?;
    let left = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    ensure_eq!(left.matches(&format!(" {address} ")).count(), 0, "{address} is still this machine's");
    fixture.finish()
}
