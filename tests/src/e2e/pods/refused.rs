//! What needs a cluster is refused by name; what cannot be read takes no pod.

use serde_json::{Value, json};

use super::NEEDS;
use super::manifest::{STAY, merged, one, pod, shell};
use super::seen::Seen;
use super::stage::Stage;
use crate::e2e::hierarchy::managed::status;
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("pod_that_needs_a_cluster_is_refused", cluster).timeout(120).needs(NEEDS),
    Test::new("pod_manifests_half_written", half_written).timeout(120).needs(NEEDS),
];

/// Waits until a problem names all of these.
fn problem(stage: &Stage<'_>, words: &[&str]) -> Result<(), Failure> {
    let mut last = Vec::new();
    let named = eventually(stage.context().patiently(15), "", || {
        last = status(stage.agent()?)?.problems;
        let names = |text: &&String| words.iter().all(|word| text.contains(word));
        Ok(last.iter().find(names).map(|_| ()))
    });
    named.map_err(|_| Failure::Unexpected(format!("no problem names {words:?}: {last:?}")))
}

fn no_problem(stage: &Stage<'_>, word: &str) -> Result<(), Failure> {
    eventually(stage.context().patiently(15), &format!("a problem still names {word}"), || {
        let problems = status(stage.agent()?)?.problems;
        Ok((!problems.iter().any(|text| text.contains(word))).then_some(()))
    })
}

fn cluster(context: &Context) -> Result<(), Failure> {
    let mut stage = Stage::new(context)?;
    let volume = |volume: Value| json!({ "volumes": [merged(json!({ "name": "v" }), volume)] });
    let env = |from: Value| json!({ "containers": [shell("c", STAY, json!({ "env": [{ "name": "E", "valueFrom": from }] }))] });
    let cases = [
        ("config-map", volume(json!({ "configMap": { "name": "m" } })), "configMap"),
        ("secret", volume(json!({ "secret": { "secretName": "s" } })), "secret"),
        ("claim", volume(json!({ "persistentVolumeClaim": { "claimName": "c" } })), "persistentVolumeClaim"),
        ("plugin", volume(json!({ "csi": { "driver": "d.test" } })), "csi"),
        ("nfs", volume(json!({ "nfs": { "server": "s.test", "path": "/" } })), "nfs"),
        ("env-map", env(json!({ "configMapKeyRef": { "name": "m", "key": "k" } })), "configMapKeyRef"),
        ("env-secret", env(json!({ "secretKeyRef": { "name": "s", "key": "k" } })), "secretKeyRef"),
        ("account", json!({ "serviceAccountName": "someone" }), "serviceAccountName"),
        (
            "ephemeral",
            json!({ "ephemeralContainers": [{ "name": "e", "image": "i" }] }),
            "ephemeralContainers",
        ),
    ];
    for (name, more, _) in &cases {
        let usual = json!({ "containers": [shell("c", STAY, json!({}))] });
        stage.put([pod(name, merged(usual, more.clone()))])?;
    }
    stage.put([one("good", STAY, json!({}))])?;
    stage.up("good")?;
    for (name, _, field) in &cases {
        problem(&stage, &[&format!("{name}.json"), field])?;
        ensure!(stage.pod(name)?.is_none(), "pod {name} is there though it was refused");
    }
    stage.finish()
}

fn half_written(context: &Context) -> Result<(), Failure> {
    let mut stage = Stage::new(context)?;
    let text = one("steady", STAY, json!({})).to_string();
    stage.put([one("steady", STAY, json!({})), one("other", STAY, json!({}))])?;
    let before = stage.up("steady")?;
    stage.up("other")?;
    let id = |pod: &Seen| -> Result<String, Failure> { Ok(pod.container("c")?.id().to_owned()) };
    let unharmed = |stage: &Stage<'_>, what: &str| -> Result<(), Failure> {
        let now = stage.up("steady")?;
        ensure_eq!((now.uid(), id(&now)?), (before.uid(), id(&before)?), "pod and container after {what}");
        Ok(())
    };
    // Written slowly, in place, by somebody who does not rename: each half is no manifest.
    let path = stage.managed().manifests().join("steady.json");
    for end in [0, 10, text.len() / 2, text.len() - 1] {
        std::fs::write(&path, &text[..end]).map_err(Failure::file(&path))?;
        std::thread::sleep(std::time::Duration::from_millis(300));
        unharmed(&stage, &format!("{end} of {} bytes", text.len()))?;
    }
    problem(&stage, &["steady.json"])?;
    std::fs::write(&path, &text).map_err(Failure::file(&path))?;
    no_problem(&stage, "steady.json")?;
    unharmed(&stage, "the whole manifest again")?;

    // A field of another type: file, line and field.
    let wrong = "apiVersion: v1\nkind: Pod\nmetadata: {name: wrong}\nspec:\n  containers:\n  - name: c\n    image: [no]\n";
    stage.managed().write_text("wrong", wrong)?;
    problem(&stage, &["wrong.json", "image", "7"])?;
    // The same pod in another file.
    let copy = one("steady", "exit 1", json!({}));
    stage.managed().write_text("zz-copy", &copy.to_string())?;
    problem(&stage, &["zz-copy.json", "steady"])?;
    unharmed(&stage, "a copy of its name")?;
    // Several documents a file, and YAML.
    let documents = ["three", "four"].map(|name| one(name, STAY, json!({})).to_string()).join("\n---\n");
    stage.managed().write_text("documents", &documents)?;
    stage.up("three")?;
    stage.up("four")?;
    // The directory goes: nobody is ended; and comes back.
    let (manifests, away) = (stage.managed().manifests().to_owned(), context.temp.join("away"));
    std::fs::rename(&manifests, &away).map_err(Failure::file(&manifests))?;
    problem(&stage, &[&manifests.display().to_string()])?;
    unharmed(&stage, "its directory has vanished")?;
    ensure_eq!(stage.pods()?.len(), 4, "pods without a directory");
    std::fs::rename(&away, &manifests).map_err(Failure::file(&away))?;
    for name in ["zz-copy", "wrong", "documents"] {
        stage.managed().remove(name)?;
    }
    stage.gone(&["three", "four"])?;
    unharmed(&stage, "its directory is back")?;
    stage.finish()
}
