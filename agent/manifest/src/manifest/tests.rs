use super::*;

const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: c, image: i}]}\n";

fn pod(name: &str) -> String {
    POD.replace("NAME", name)
}

fn json_pod(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
    )
}

/// The names of pods and the messages of errors, in order.
fn parsed(text: &str) -> Vec<String> {
    let text_of =
        |one: Result<Pod, ManifestError>| one.map_or_else(|error| error.to_string(), |pod| pod.name);
    parse(text).into_iter().map(text_of).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(parsed(text), expected, "{text}");
}

#[test]
fn documents_are_split_as_in_yaml_and_json() {
    let (a, b) = (pod("a"), pod("b"));
    check("", &[]);
    check("# nothing\n---\n...\n---   # nor here\n\n", &[]);
    check(&a, &["a"]);
    check(&format!("{a}---\n{b}"), &["a", "b"]);
    check(&format!("\u{feff}%YAML 1.1\n--- # first\n{a}...\n---\n\n# none\n---\n{b}---\n"), &["a", "b"]);
    check(&format!("{a}---\n{b}").replace('\n', "\r\n"), &["a", "b"]);
    check(&format!("--- {}\n---\n{b}", json_pod("a")), &["a", "b"]);
    check(&json_pod("a"), &["a"]);
    check(
        &format!("{}{}\n\n{}---\n{a}", json_pod("x"), json_pod("y"), json_pod("z") + "\n"),
        &["x", "y", "z", "a"],
    );
    check(&json_pod("a").replace('{', "{\n\t").replace(',', ",\n\t"), &["a"]);
    // JSON with a comma at the end of a list, which only YAML allows.
    check(&json_pod("a").replace(r#"}]}}"#, "},]}}"), &["a"]);
    check(&format!("{} # a comment\n", json_pod("a")), &["a"]);
    check(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}",
        &["a"],
    );
    // A block scalar may hold a line of dashes that is indented.
    check(&pod("a").replace("{name: c,", "{name: c, workingDir: '\n ---\n ',"), &["a"]);
}

#[test]
fn items_of_lists_are_pods() {
    let list = |kind: &str, items: &str| format!("apiVersion: v1\nkind: {kind}\nitems: [{items}]\n");
    check(&list("List", &format!("{}, {}", json_pod("a"), json_pod("b"))), &["a", "b"]);
    check(&list("PodList", "{metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}"), &["a"]);
    check(&list("PodList", ""), &[]);
    check(
        &list(
            "List",
            &format!(
                "{{kind: Service, apiVersion: v1}}, {}, {{metadata: {{name: [x]}}}}, {{}}",
                json_pod("b")
            ),
        ),
        &[
            "document 1, line 3: apiVersion \"v1\" and kind \"Service\" must be \"v1\" and \"Pod\", or a list of these",
            "b",
            "document 1, line 3: items[2].metadata.name: invalid type: sequence, expected a string",
            "document 1, line 3: items[3].metadata.name: is required; items[3].spec.containers: is required: at least one \
             container",
        ],
    );
}

#[test]
fn faults_name_their_document_line_and_field() {
    let a = pod("a");
    check(
        &format!("{a}---\napiVersion: apps/v1\nkind: Deployment\n---\n{a}"),
        &[
            "a",
            "document 2, line 6: apiVersion \"apps/v1\" and kind \"Deployment\" must be \"v1\" and \"Pod\", or a list of \
             these",
            "a",
        ],
    );
    check(
        &format!("{a}---\nkind: Pod\n"),
        &[
            "a",
            "document 2, line 6: apiVersion \"\" and kind \"Pod\" must be \"v1\" and \"Pod\", or a list of these",
        ],
    );
    check(
        "just text\n",
        &["document 1, line 1: invalid type: string \"just text\", expected a Kubernetes object"],
    );
    check(
        &format!("{a}---\n{}---\n{a}", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: [1]\n"),
        &[
            "a",
            "document 2, line 10: spec.containers[0].name: invalid type: sequence, expected a string",
            "a",
        ],
    );
    check(
        "{\n\"apiVersion\": \"v1\",\n\"kind\": \"Pod\",\n\"spec\": {\"priority\": \"high\"}}",
        &["document 1, line 4: spec.priority: invalid type: string \"high\", expected i32"],
    );
    // A kubelet refuses a number for a text too, whatever the language.
    let number = "line 4: spec.containers[0].env[0].value: invalid type: integer `5`, expected a string";
    let env = |pod: &str, before: &str, value: &str| pod.replace(before, &format!("{before}{value}"));
    check(&env(&a, "name: c,", " env: [{name: A, value: 5}],"), &[&format!("document 1, {number}")]);
    check(
        &env(&json_pod("a"), "\"name\":\"c\",", "\"env\":[{\"name\":\"A\",\"value\":5}],"),
        &[&format!("document 1, {}", number.replace("line 4", "line 1"))],
    );
    check(
        &format!("---\n{a}spec: {{containers: [}}\n---\n{a}"),
        &[
            "document 1, line 6: spec.containers: did not find expected node content, while parsing a flow node",
            "a",
        ],
    );
    check(
        &format!("{}\n{{\"kind\": \n", json_pod("a")),
        &["a", "document 2, line 3: EOF while parsing a value"],
    );
    check(
        &format!("{a}---\n{}", a.replace("name: c,", "name: c, resources: {limits: {cpu: 1 core}},")),
        &[
            "a",
            "document 2, line 9: spec.containers[0].resources.limits[cpu]: \"1 core\" is not a quantity: want a number \
             and a suffix, as in 100m, 1.5 or 2Gi",
        ],
    );
}

#[test]
fn every_problem_has_its_line() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: A\nspec:\n  serviceAccountName: x\n  hostUsers: false\n  \
               containers:\n  - name: c\n    env:\n    - name: A\n      valueFrom: {secretKeyRef: {name: s, key: k}}\n";
    let parsed = parsed(&format!("---\n{pod}"));
    let parts: Vec<_> = parsed[0].split("; ").map(|part| part.split(" must").next().unwrap()).collect();
    assert_eq!(
        parts,
        [
            "document 1, line 5: metadata.name: \"A\"",
            "line 7: spec.serviceAccountName: \"x\"",
            "line 8: spec.hostUsers: \"false\"",
            "line 10: spec.containers[0].image: is required",
            "line 13: spec.containers[0].env[0].valueFrom.secretKeyRef: \"s\"",
        ]
    );
}

/// Finding the lines of many problems takes bounded time.
#[test]
fn many_problems_of_a_long_manifest_are_located_in_bounded_time() {
    let containers: String = (0..4000).map(|n| format!("  - name: C{n}\n")).collect();
    let text =
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers:\n{containers}");
    let begun = std::time::Instant::now();
    assert_eq!(parsed(&text).len(), 1);
    assert!(begun.elapsed() < std::time::Duration::from_secs(30));
}

#[test]
fn numbers_and_anchors_are_read() {
    let text = "
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: n, uid: 8c5e}
x-shared: &shared
  resources: {limits: {cpu: 1, memory: 1e3}, requests: {cpu: 0.1}}
spec:
  priorityClassName: system-node-critical
  initContainers: [{name: i, image: i}, {<<: *shared, name: s, image: i, restartPolicy: Always}]
  containers: [{<<: *shared, name: c, image: i}]
";
    let pod = parse(text).remove(0).unwrap();
    assert_eq!((pod.name.as_str(), pod.namespace.as_str(), pod.uid.as_str()), ("a", "n", "8c5e"));
    assert!(pod.is_node_critical() && pod.priority == 2_000_001_000);
    assert_eq!(pod.init_containers[1].kind, crate::ContainerKind::Sidecar);
    assert_eq!(pod.init_containers[1].resources, pod.containers[0].resources);
    let written =
        |list: crate::ResourceList| list.iter().map(|(n, q)| format!("{n}={q}")).collect::<Vec<_>>();
    assert_eq!(written(pod.requests()), ["cpu=200m", "memory=2k"]);
    assert_eq!(written(pod.limits()), ["cpu=2", "memory=2k"]);
}

#[test]
fn documents_that_would_need_all_memory_are_refused() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for n in 1..12 {
        let refs = vec![format!("*a{}", n - 1); 9].join(",");
        text += &format!("a{n}: &a{n} [{refs}]\n");
    }
    let refused = parsed(&(text + POD + "# <<\n"));
    assert!(refused[0].contains("repetition limit"), "{refused:?}");
    let deep = "[".repeat(100_000);
    let a = pod("a");
    check(
        &format!("{a}---\n{a}x: {deep}\n---\n{a}"),
        &["a", "document 2, line 6: brackets within brackets, more than 1000", "a"],
    );
    check(&format!("{{\"x\": {deep}"), &["document 1, line 1: brackets within brackets, more than 1000"]);
}

/// One list that many containers refer to: no alias is followed often, and nothing is nested.
#[test]
fn aliases_that_multiply_a_long_list_are_refused() {
    let words = vec!["x"; 10_000].join(",");
    let containers: String =
        (0..10_000).map(|n| format!("  - {{name: c{n}, image: i, args: *big}}\n")).collect();
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nx-big: &big [{words}]\nspec:\n  containers:\n{containers}"
    );
    let begun = std::time::Instant::now();
    let refused = parsed(&format!("{}---\n{text}", pod("b")));
    let limit = "document 2, line 6: aliases (*name) expand the file to more than 67108864 bytes";
    assert_eq!(refused, ["b", limit]);
    // Many documents with less each.
    let containers: String = (0..20).map(|n| format!("  - {{name: c{n}, image: i, args: *big}}\n")).collect();
    let part = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nx-big: &big [{words}]\nspec:\n  containers:\n{containers}"
    );
    let several = parsed(&vec![part; 12].join("---\n"));
    assert_eq!(several.iter().filter(|one| *one == "a").count(), 9, "{:?}", several.last());
    assert!(several[11].ends_with("67108864 bytes"), "{several:?}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
}

proptest::proptest! {
    #[test]
    fn nothing_panics(text in "([{}\\[\\]:,\"'&*|>%#\\- \na-z0]|---\n|<<: ){0,40}") {
        for error in parse(&text).into_iter().filter_map(Result::err) {
            proptest::prop_assert!((1..=text.lines().count() + 1).contains(&error.line), "{error}");
        }
    }
}

/// A file that is read while it is being written.
#[test]
fn a_text_that_ends_too_early_is_no_pod() {
    let full =
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec: {containers: [{name: c, image: 'i'}]}\n";
    for text in [full.to_owned(), json_pod("a") + "\n", format!("# <<\n{full}")] {
        for end in 0..text.len() - 1 {
            let parsed = parsed(&text[..end]);
            assert!(parsed.len() <= 1 && parsed != ["a"], "{:?}: {parsed:?}", &text[..end]);
        }
    }
}
