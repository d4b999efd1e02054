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
    let all = Environment::of(&pod, &pod.spec().containers[0], &ips, &fixture.host(), &PodObjects::default());
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
    let all = Environment::of(&pod, &pod.spec().containers[0], &[], &fixture.host(), &PodObjects::default())
        .unwrap();
    assert_eq!((all.get("A"), all.get("B")), (Some("2"), Some("1024")));
}

#[test]
fn what_is_reserved_is_not_available() {
    let mut fixture = Fixture::new();
    fixture.settings.kube_reserved.insert("cpu".into(), "500m".parse().unwrap());
    let pod = pod(&SPEC
        .replace("ENV", "[{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}]"));
    let all = Environment::of(&pod, &pod.spec().containers[0], &[], &fixture.host(), &PodObjects::default())
        .unwrap();
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
    let mut all =
        Environment::of(&pod, &pod.spec().containers[0], &[], &fixture.host(), &PodObjects::default())
            .unwrap();
    let words = vec!["$(V20)".to_owned(); 3];
    assert_eq!(all.expand_all("args", Some(&words)).map(|args| args.len()).unwrap(), 3);
    let error = all.expand_all("args", Some(&words)).unwrap_err();
    let said = "args: together with the variables it has more than 6291456 bytes after expansion of $(NAME)";
    assert_eq!(
        (error.to_string().as_str(), error.reason().to_string().as_str()),
        (said, "CreateContainerConfigError")
    );
}

/// The variables of a container with this YAML, given config map `m`, secret `s` and a service.
fn with_objects(container: &str) -> Result<Vec<String>, SpecError> {
    let data =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let map = ConfigMap { data: data(&[("A", "1"), ("b-c", "2"), ("x=y", "3")]), ..ConfigMap::default() };
    let secret = Secret { kind: String::new(), data: [("A".to_owned(), b"hidden".to_vec())].into() };
    let service = crate::objects::Service {
        namespace: "ns".into(),
        name: "db".into(),
        ip: "10.0.0.9".into(),
        ports: vec![crate::objects::ServicePort { name: String::new(), protocol: "TCP".into(), port: 5432 }],
    };
    let objects = PodObjects::default()
        .with_config_map("m", Some(map))
        .with_config_map("none", None)
        .with_secret("s", Some(secret))
        .with_secret("none", None)
        .with_services(vec![service]);
    let fixture = Fixture::new();
    let pod = pod(&format!("containers: [{{name: c, {container}}}]"));
    let all = Environment::of(&pod, &pod.spec().containers[0], &[], &fixture.host(), &objects)?;
    let own = all.into_pairs().into_iter().filter(|(name, _)| !name.starts_with("DB_PORT"));
    Ok(own.map(|(name, value)| format!("{name}={value}")).collect())
}

#[test]
fn all_keys_of_objects_come_first_and_services_last() {
    let all = with_objects(
        "envFrom: [{configMapRef: {name: m}}, {prefix: S_, secretRef: {name: s}}, {configMapRef: {name: none, optional: true}}], env: [{name: B, value: '$(A) $(S_A) $(DB_SERVICE_HOST) $(NO)'}, {name: DB_SERVICE_PORT, value: mine}]",
    );
    assert_eq!(
        all.unwrap(),
        [
            "A=1",
            "b-c=2",
            "S_A=hidden",
            "B=1 hidden 10.0.0.9 $(NO)",
            "DB_SERVICE_PORT=mine",
            "DB_SERVICE_HOST=10.0.0.9"
        ]
    );
    // A later source and the container's own variables replace a value.
    let all = with_objects(
        "envFrom: [{configMapRef: {name: m}}, {secretRef: {name: s}}], env: [{name: b-c, value: own}]",
    );
    assert_eq!(all.unwrap()[..2], ["A=hidden", "b-c=own"]);
}

#[test]
fn single_keys_are_read_or_left_out_or_missing() {
    let map = |rest: &str| format!("env: [{{name: V, valueFrom: {{configMapKeyRef: {{{rest}}}}}}}]");
    let secret = |rest: &str| format!("env: [{{name: V, valueFrom: {{secretKeyRef: {{{rest}}}}}}}]");
    let value = |container: &str| {
        let all = with_objects(container).map_err(|error| {
            assert_eq!(error.reason().name(), "CreateContainerConfigError");
            error.to_string()
        });
        all.map(|all| all.into_iter().find(|line| line.starts_with("V=")))
    };
    assert_eq!(value(&map("name: m, key: A")), Ok(Some("V=1".into())));
    assert_eq!(value(&secret("name: s, key: A")), Ok(Some("V=hidden".into())));
    assert_eq!(value(&map("name: m, key: z")), Err("couldn't find key z in ConfigMap ns/m".into()));
    assert_eq!(value(&secret("name: s, key: z")), Err("couldn't find key z in Secret ns/s".into()));
    assert_eq!(value(&map("name: none, key: z")), Err("configmap \"none\" not found".into()));
    for optional in [map("name: m, key: z, optional: true"), secret("name: none, key: z, optional: true")] {
        assert_eq!(value(&optional), Ok(None));
    }
    assert_eq!(value("envFrom: [{secretRef: {name: none}}]"), Err("secret \"none\" not found".into()));
}

#[test]
fn keys_that_are_no_names_of_variables_are_reported() {
    let map = ConfigMap { data: [("x=y".to_owned(), String::new())].into(), ..ConfigMap::default() };
    let objects = PodObjects::default().with_config_map("m", Some(map));
    let pod = pod("containers: [{name: c, envFrom: [{prefix: P_, configMapRef: {name: m}}]}]");
    let messages = skipped(&pod, &pod.spec().containers[0], &objects);
    let expected = "Keys [P_x=y] from the EnvFrom configMap ns/m were skipped since they are considered invalid environment variable names.";
    assert_eq!(messages, [expected]);
}
