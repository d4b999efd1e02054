//! The schema against the agent's own reading, with a validator of others.

use std::sync::LazyLock;

use boon::{Compiler, SchemaIndex, Schemas, ValidationError};

use super::*;
use crate::{Config, ConfigError, parse};

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// Compiles a schema, which is checked against its meta-schema before.
static COMPILED: LazyLock<(Schemas, SchemaIndex)> = LazyLock::new(|| {
    let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
    compiler.add_resource("nodewarden.json", schema()).unwrap();
    let index = compiler.compile("nodewarden.json", &mut schemas).unwrap();
    (schemas, index)
});

/// What the validator says about a file; empty if it is valid.
pub fn faults(text: &str) -> Vec<String> {
    let file: Value = serde_yaml_ng::from_str(text).unwrap();
    let (schemas, index) = &*COMPILED;
    let mut faults = Vec::new();
    if let Err(error) = schemas.validate(&file, *index) {
        add_faults(&error, &mut faults);
    }
    faults
}

/// An error without causes is a fault; the others only group them.
fn add_faults(error: &ValidationError<'_, '_>, faults: &mut Vec<String>) {
    if error.causes.is_empty() {
        faults.push(format!("{}: {}", error.instance_location, error.kind));
    }
    error.causes.iter().for_each(|cause| add_faults(cause, faults));
}

fn read(body: &str) -> Result<Config, ConfigError> {
    parse("f", &format!("{HEAD}{body}"), &Overrides::default())
}

#[test]
fn it_is_a_schema() {
    assert_eq!(schema()["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let (schemas, index) = &*COMPILED;
    assert!(schemas.validate(&Value::Null, *index).is_err());
}

#[test]
fn the_sample_and_what_is_shown_are_valid() {
    let sample = include_str!("../../../../deploy/config.yaml");
    assert_eq!(faults(sample), [""; 0]);
    for body in
        ["", "memorySwap: {swapBehavior: LimitedSwap}\nmemoryReservationPolicy: None\nregistryPullQPS: 0"]
    {
        assert_eq!(faults(&read(body).unwrap().to_yaml()), [""; 0], "{body}");
    }
}

/// Every path of a property, but not those of old names, feature gates, and lists.
fn paths(node: &Value, prefix: &str, found: &mut Vec<String>) {
    for (name, own) in node["properties"].as_object().into_iter().flatten() {
        if own["deprecated"] == true {
            continue;
        }
        let path = crate::fields::join(prefix, name);
        if path != "featureGates" {
            paths(own, &path, found);
        }
        found.push(path);
    }
}

/// A value at a path, as a file.
fn nested(path: &str, value: &str) -> String {
    path.rsplit('.').fold(value.to_owned(), |inner, key| format!("{{{key}: {inner}}}"))
}

fn file(path: &str, value: &str) -> String {
    let (top, rest) = path.split_once('.').map_or((path, None), |(top, rest)| (top, Some(rest)));
    format!("{top}: {}", rest.map_or(value.to_owned(), |rest| nested(rest, value)))
}

/// The agent is asked about each key of the schema, with a value that fits no type: it knows the key and
/// refuses the value, and so does the schema.
#[test]
fn each_key_of_the_schema_is_one_of_the_agent() {
    let mut all = Vec::new();
    paths(&schema(), "", &mut all);
    assert!(all.len() > 190, "{}", all.len());
    for path in all.iter().filter(|path| !["apiVersion", "kind"].contains(&path.as_str())) {
        let body = file(path, "[[[]]]");
        let Err(ConfigError::Invalid { problems, .. }) = read(&body) else { panic!("{body} is accepted") };
        let about = |field: &str| field.starts_with(path.as_str()) || path.starts_with(&format!("{field}."));
        let own = problems.iter().any(|p| about(&p.field) && p.value != "unknown key");
        assert!(own, "{body}: {problems:?}");
        assert!(!faults(&format!("{HEAD}{body}")).is_empty(), "{body}");
    }
}

/// Each key that the readers know or the table lists is in the schema, with a description.
#[test]
fn each_key_of_the_agent_is_in_the_schema() {
    let mut reading = Reading::default();
    file::read(Mapping::new(), &mut reading, &Overrides::default());
    let schema = schema();
    let known = reading.keys.iter().map(|key| key.path.clone());
    let listed = keys::all().map(|key| key.path.to_owned());
    for path in known.chain(listed) {
        let own = path.split('.').fold(&schema, |node, part| &node["properties"][part]);
        assert!(own["description"].as_str().is_some_and(|text| text.len() > 8), "{path}: {own}");
    }
}

/// Each name that the schema lists for a key is accepted by the agent's reader of it.
#[test]
fn each_name_in_the_schema_is_accepted() {
    let mut reading = Reading::default();
    file::read(Mapping::new(), &mut reading, &Overrides::default());
    let mut count = 0;
    for key in &reading.keys {
        let (names, list) = match key.shape {
            Shape::OneOf { names, .. } => (names, false),
            Shape::List(Shape::OneOf { names, .. }) => (*names, true),
            _ => continue,
        };
        for name in names {
            let value = if list { format!("[{name}]") } else { (*name).to_owned() };
            let body = file(&key.path, &value);
            if let Err(ConfigError::Invalid { problems, .. }) = read(&body) {
                let refused = problems.iter().any(|p| p.expected == key.expected);
                assert!(!refused, "{body}: {problems:?}");
            }
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
}

#[test]
fn what_is_wrong_is_found_at_its_place() {
    for (body, place) in [
        ("maxpods: 3", ""),
        ("maxPods: '3'", "/maxPods"),
        ("maxPods: -1", "/maxPods"),
        ("podsPerCore: 1.5", "/podsPerCore"),
        ("cgroupDriver: docker", "/cgroupDriver"),
        ("syncFrequency: often", "/syncFrequency"),
        ("imageMinimumGCAge: -1s", "/imageMinimumGCAge"),
        ("logging: {format: xml}", "/logging/format"),
        ("logging: {colour: red}", "/logging"),
        ("authentication: {webhook: {cacheTTL: 5}}", "/authentication/webhook/cacheTTL"),
        ("registerWithTaints: [{key: a, effect: Never}]", "/registerWithTaints/0/effect"),
        ("evictionHard: {memory.available: 100}", "/evictionHard/memory.available"),
        ("featureGates: {MemoryQoS: 1}", "/featureGates/MemoryQoS"),
        ("enforceNodeAllocatable: [pod]", "/enforceNodeAllocatable/0"),
        ("nodewarden: {mode: watch}", "/nodewarden/mode"),
        ("nodewarden: {journal: {files: 0}}", "/nodewarden/journal/files"),
        ("nodewarden: {journal: {fileBytes: 1Ti}}", "/nodewarden/journal/fileBytes"),
        ("nodewarden: {throttle: {memory: {distance: 12}}}", "/nodewarden/throttle/memory/distance"),
        ("nodewarden: []", "/nodewarden"),
    ] {
        let found = faults(&format!("{HEAD}{body}"));
        assert!(found.iter().any(|fault| fault.starts_with(&format!("{place}: "))), "{body}: {found:?}");
        assert!(read(body).is_err(), "{body}");
    }
    assert_eq!(faults("kind: KubeletConfiguration").len(), 1);
    assert_eq!(faults(&HEAD.replace("v1beta1", "v1")).len(), 1);
}

#[test]
fn old_names_are_valid_and_marked() {
    let body = "nodewarden: {feedback: {cpu: {leastMilliCPU: 99}, memory: {least: 2Mi}}, eviction: {comeBack: false}}";
    assert!(read(body).is_ok());
    assert_eq!(faults(&format!("{HEAD}{body}")), [""; 0]);
}

/// Keys have their units and defaults.
#[test]
fn defaults_are_those_in_effect() {
    let schema = schema();
    let at = |path: &str| path.split('.').fold(&schema, |node, part| &node["properties"][part]);
    assert_eq!(at("maxPods")["default"], 110);
    assert_eq!(at("logging.format")["default"], "text");
    assert_eq!(at("registryPullQPS")["default"], 5);
    assert_eq!(at("nodewarden.journal.files")["maximum"], 100);
    assert_eq!(at("evictionHard")["default"]["nodefs.available"], "10%");
}
