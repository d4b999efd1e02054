use super::*;
use crate::spec::fixture::{Fixture, pod};

/// Servers, searches, options, and the warnings' reasons.
fn resolver_of(fixture: &Fixture, spec: &str) -> (String, String, String, Vec<String>) {
    let pod = pod(&format!("{spec}\ncontainers: [{{name: c}}]"));
    let (config, warnings) = config(&pod, &fixture.host()).unwrap();
    let reasons = warnings.into_iter().map(|(reason, _)| reason).collect();
    (config.servers.join(" "), config.searches.join(" "), config.options.join(" "), reasons)
}

#[track_caller]
fn check(fixture: &Fixture, spec: &str, expected: [&str; 3], reasons: &[&str]) {
    let [servers, searches, options] = expected.map(str::to_owned);
    let reasons = reasons.iter().map(|reason| (*reason).to_owned()).collect();
    assert_eq!(resolver_of(fixture, spec), (servers, searches, options, reasons), "{spec}");
}

#[test]
fn pods_without_a_cluster_use_the_nodes_resolver() {
    let fixture = Fixture::new();
    let host = ["192.0.2.53", "example.org", "timeout:1"];
    check(&fixture, "dnsPolicy: Default", host, &[]);
    check(&fixture, "", host, &["MissingClusterDNS"]);
    check(&fixture, "dnsPolicy: ClusterFirstWithHostNet\nhostNetwork: true", host, &["MissingClusterDNS"]);
    // On the node's network ClusterFirst is Default.
    check(&fixture, "hostNetwork: true", host, &[]);
    check(&fixture, "dnsPolicy: None\ndnsConfig: {nameservers: [1.1.1.1]}", ["1.1.1.1", "", ""], &[]);
}

#[test]
fn with_a_clusters_servers() {
    let mut fixture = Fixture::new();
    fixture.pods.cluster_dns = vec!["10.96.0.10".parse().unwrap()];
    let searches = "ns.svc.cluster.local svc.cluster.local cluster.local example.org";
    check(&fixture, "", ["10.96.0.10", searches, "ndots:5"], &[]);
    check(
        &fixture,
        "dnsPolicy: ClusterFirstWithHostNet\nhostNetwork: true",
        ["10.96.0.10", searches, "ndots:5"],
        &[],
    );
    check(&fixture, "dnsPolicy: Default", ["192.0.2.53", "example.org", "timeout:1"], &[]);
    fixture.pods.cluster_domain = String::new();
    check(&fixture, "", ["10.96.0.10", "example.org", "ndots:5"], &[]);
}

#[test]
fn what_the_pod_adds() {
    let fixture = Fixture::new();
    check(
        &fixture,
        "dnsPolicy: Default\ndnsConfig: {nameservers: [192.0.2.53, 1.1.1.1], searches: [a.b, example.org], options: [{name: timeout, value: '3'}, {name: edns0}]}",
        ["192.0.2.53 1.1.1.1", "example.org a.b", "timeout:3 edns0"],
        &[],
    );
}

#[test]
fn no_resolver_at_all() {
    let mut fixture = Fixture::new();
    fixture.pods.resolv_conf = None;
    check(&fixture, "dnsPolicy: Default", ["127.0.0.1", ".", ""], &[]);
    fixture.host_ips.reverse();
    check(&fixture, "dnsPolicy: Default", ["::1", ".", ""], &[]);
}

#[test]
fn entries_beyond_the_limits_are_dropped_with_a_warning() {
    let mut fixture = Fixture::new();
    fixture.resolv.nameservers = (1..=5).map(|n| format!("192.0.2.{n}")).collect();
    fixture.resolv.searches = (0..40).map(|n| format!("d{n}")).collect();
    let (servers, searches, _, reasons) = resolver_of(&fixture, "dnsPolicy: Default");
    assert_eq!(servers, "192.0.2.1 192.0.2.2 192.0.2.3");
    assert_eq!(searches.split(' ').count(), 32);
    assert_eq!(reasons, ["DNSConfigForming", "DNSConfigForming"]);
    fixture.resolv.nameservers.clear();
    fixture.resolv.searches = vec!["a".repeat(300), "b".repeat(250)];
    assert_eq!(resolver_of(&fixture, "dnsPolicy: Default").1, "b".repeat(250));
    fixture.resolv.searches = (0..12).map(|n| format!("{}{n}", "x".repeat(200))).collect();
    assert_eq!(resolver_of(&fixture, "dnsPolicy: Default").1.split(' ').count(), 10);
}

#[test]
fn an_unknown_policy() {
    let fixture = Fixture::new();
    let error = config(&pod("dnsPolicy: First\ncontainers: []"), &fixture.host()).unwrap_err();
    assert_eq!(error.reason().name(), "CreatePodSandboxError");
}

#[test]
fn resolv_conf() {
    let text = "# comment\n; other\n\nnameserver 1.1.1.1\n nameserver\t::1 # x\ndomain old\nsearch a b.\n\
                search c. . d\noptions ndots:1 rotate\noptions ndots:2\nsortlist x\n";
    let parsed = Resolv::parse(text).unwrap();
    assert_eq!(parsed.nameservers, ["1.1.1.1", "::1"]);
    assert_eq!(parsed.searches, ["c", ".", "d"]);
    assert_eq!(parsed.options, ["ndots:2", "rotate"]);
    assert_eq!(Resolv::parse("").unwrap(), Resolv::default());
    assert_eq!(Resolv::parse("search a\nnameserver\n"), Err(2));
    let error = Resolv::read(std::path::Path::new("/nonexistent/resolv.conf")).unwrap_err();
    assert!(error.to_string().starts_with("read /nonexistent/resolv.conf: "), "{error}");
}
