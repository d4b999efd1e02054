use super::*;
use crate::spec::fixture::{Fixture, pod};

const SPEC: &str = "
containers:
- name: c
  resources:
    requests: {cpu: 250m, memory: 100Mi, ephemeral-storage: 1Gi}
    limits: {memory: 256Mi, hugepages-2Mi: 4Mi}
  env: ENV
- name: other
  resources: {limits: {cpu: 1500m}}
";

/// The variables of container `c` with this `env`, a line each.
fn variables(env: &str) -> Result<Vec<String>, String> {
    let fixture = Fixture::new();
    let pod = pod(&SPEC.replace("ENV", env));
    let ips = ["10.1.2.3", "fd00::7"].map(|ip| ip.parse().unwrap());
    let all = Environment::of(&pod, &pod.spec.containers[0], &ips, &fixture.host(), &PodObjects::default());
    all.map(|all| all.into_pairs().iter().map(|(name, value)| format!("{name}={value}")).collect())
        .map_err(|error| error.to_string())
}

#[track_caller]
fn check(env: &str, expected: &[&str]) {
    assert_eq!(variables(env).unwrap(), expected, "{env}");
}

#[test]
fn a_value_can_refer_to_earlier_variables() {
    check("[]", &[]);
    check(
        "[{name: A, value: x}, {name: B, value: '$(A)-$(C)-$$(A)'}, {name: C, value: y}]",
        &["A=x", "B=x-$(C)-$(A)", "C=y"],
    );
    check("[{name: A}, {name: B, value: '[$(A)]'}]", &["A=", "B=[]"]);
    // The later one counts, and can refer to the earlier.
    check("[{name: A, value: a}, {name: B, value: b}, {name: A, value: $(A)2}]", &["A=a2", "B=b"]);
    // Values from references are not expanded.
    check(
        "[{name: N, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['note']\"}}}, {name: M, value: $(N)}]",
        &["N=a \"b\"\n", "M=a \"b\"\n"],
    );
}

#[test]
fn fields() {
    let field =
        |path: &str| variables(&format!("[{{name: A, valueFrom: {{fieldRef: {{fieldPath: \"{path}\"}}}}}}]"));
    for (path, value) in [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "node-1"),
        ("spec.serviceAccountName", ""),
        ("status.hostIP", "192.0.2.1"),
        ("status.hostIPs", "192.0.2.1,2001:db8::1"),
        ("status.podIP", "10.1.2.3"),
        ("status.podIPs", "10.1.2.3,fd00::7"),
    ] {
        assert_eq!(field(path).unwrap(), [format!("A={value}")], "{path}");
    }
    assert_eq!(field("status.phase").unwrap_err(), "env A: unsupported fieldPath: status.phase");
}

#[test]
fn resources() {
    let resource = |text: &str| {
        let text = format!("[{{name: A, valueFrom: {{resourceFieldRef: {{{text}}}}}}}]");
        variables(&text).map(|all| all[0][2..].to_owned())
    };
    for (text, value) in [
        // Rounded up to whole divisors; without a divisor, to whole units.
        ("resource: requests.cpu", "1"),
        ("resource: requests.cpu, divisor: 1m", "250"),
        ("resource: requests.cpu, divisor: '0'", "1"),
        ("resource: requests.memory", "104857600"),
        ("resource: requests.memory, divisor: 1Mi", "100"),
        ("resource: requests.memory, divisor: 1M", "105"),
        ("resource: requests.memory, divisor: 1Gi", "1"),
        ("resource: requests.ephemeral-storage, divisor: 1Mi", "1024"),
        ("resource: limits.memory, divisor: 1Mi", "256"),
        ("resource: limits.hugepages-2Mi, divisor: 1Mi", "4"),
        ("resource: requests.hugepages-2Mi, divisor: 1Mi", "4"),
        ("resource: limits.hugepages-1Gi", "0"),
        // Without a limit: what the node has for pods.
        ("resource: limits.cpu", "4"),
        ("resource: limits.cpu, divisor: 1m", "4000"),
        ("resource: limits.ephemeral-storage, divisor: 1Gi", "100"),
        ("containerName: other, resource: limits.cpu, divisor: 1m", "1500"),
        ("containerName: other, resource: limits.memory, divisor: 1Gi", "8"),
        ("containerName: other, resource: requests.memory", "0"),
    ] {
        assert_eq!(resource(text).as_deref(), Ok(value), "{text}");
    }
    assert_eq!(
        resource("containerName: none, resource: limits.cpu").unwrap_err(),
        "env A: container none not found"
    );
    assert_eq!(
        resource("resource: limits.gpu").unwrap_err(),
        "env A: unsupported container resource: limits.gpu"
    );
    assert_eq!(
        resource("resource: limits.cpu, divisor: x").unwrap_err(),
        "env A: divisor \"x\" is not a quantity above 0"
    );
}

#[test]
fn limits_of_the_pod_stand_in() {
    let fixture = Fixture::new();
    let pod = pod(
        "resources: {limits: {cpu: '2', memory: 1Gi}}\ncontainers: [{name: c, env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}]}]",
    );
    let all = Environment::of(&pod, &pod.spec.containers[0], &[], &fixture.host(), &PodObjects::default()).unwrap();
    assert_eq!((all.get("A"), all.get("B")), (Some("2"), Some("1024")));
}

#[test]
fn what_is_reserved_is_not_available() {
    let mut fixture = Fixture::new();
    fixture.settings.kube_reserved.insert("cpu".into(), "500m".parse().unwrap());
    let pod = pod(&SPEC
        .replace("ENV", "[{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}]"));
    let all = Environment::of(&pod, &pod.spec.containers[0], &[], &fixture.host(), &PodObjects::default()).unwrap();
    assert_eq!(all.get("A"), Some("3500"));
}

/// 40 short lines, of which the last would have a terabyte.
#[test]
fn variables_that_double_are_refused() {
    let doubling: Vec<String> =
        (1..=40).map(|n| format!("{{name: V{n}, value: '$(V{0})$(V{0})'}}", n - 1)).collect();
    let error = variables(&format!("[{{name: V0, value: x}}, {}]", doubling.join(", "))).unwrap_err();
    assert_eq!(error, "env V22: the variables have more than 6291456 bytes after expansion of $(NAME)");
    // Those that fit do not leave room for a command that repeats them.
    let fixture = Fixture::new();
    let env = format!("[{{name: V0, value: x}}, {}]", doubling[..20].join(", "));
    let pod = pod(&SPEC.replace("ENV", &env));
    let mut all = Environment::of(&pod, &pod.spec.containers[0], &[], &fixture.host(), &PodObjects::default()).unwrap();
    let words = vec!["$(V20)".to_owned(); 3];
    assert_eq!(all.expand_all("args", Some(&words)).map(|args| args.len()).unwrap(), 3);
    let error = all.expand_all("args", Some(&words)).unwrap_err();
    let said = "args: together with the variables it has more than 6291456 bytes after expansion of $(NAME)";
    assert_eq!(
        (error.to_string().as_str(), error.reason().to_string().as_str()),
        (said, "CreateContainerConfigError")
    );
}
