//! Manifests that are refused or cannot be read.

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::PodFixture;
use super::listed::ListedPod;
use super::manifest::{STAY, merged, one, pod, shell};
use crate::e2e::hierarchy::fixture::status;
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("pod_that_needs_a_cluster_is_refused", cluster).timeout(120).needs(NEEDS),
    Test::new("pod_survives_unreadable_manifests", unreadable).timeout(120).needs(NEEDS),
];

/// Waits until the status has a problem with all of these words.
fn wait_problem(fixture: &PodFixture<'_>, words: &[&str]) -> Result<(), Failure> {
    let mut last = Vec::new();
    let named = eventually(fixture.context().patiently(15), "", || {
        last = status(fixture.agent()?)?.problems;
        let names = |text: &&String| words.iter().all(|word| text.contains(word));
        Ok(last.iter().find(names).map(|_| ()))
    });
    named.map_err(|_| Failure::Unexpected(format!("no problem has {words:?}: {last:?}")))
}

/// Waits until no problem of the status has this word.
fn wait_no_problem(fixture: &PodFixture<'_>, word: &str) -> Result<(), Failure> {
    eventually(fixture.context().patiently(15), &format!("a problem still has {word}"), || {
        let problems = status(fixture.agent()?)?.problems;
        Ok((!problems.iter().any(|text| text.contains(word))).then_some(()))
    })
}

/// A pod that needs an API server is refused with the file and the field; other pods run.
fn cluster(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
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
        fixture.put([pod(name, merged(usual, more.clone()))])?;
    }
    fixture.put([one("good", STAY, json!({}))])?;
    fixture.wait_up("good")?;
    for (name, _, field) in &cases {
        wait_problem(&fixture, &[&format!("{name}.json"), field])?;
        ensure!(fixture.pod(name)?.is_none(), "pod {name} is there though it was refused");
    }
    fixture.finish()
}

/// A half-written, wrong or duplicate manifest, or a missing directory, is reported and ends no pod.
fn unreadable(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
    let text = one("steady", STAY, json!({})).to_string();
    fixture.put([one("steady", STAY, json!({})), one("other", STAY, json!({}))])?;
    let before = fixture.wait_up("steady")?;
    fixture.wait_up("other")?;
    let id = |pod: &ListedPod| -> Result<String, Failure> { Ok(pod.container("c")?.id().to_owned()) };
    let unharmed = |fixture: &PodFixture<'_>, what: &str| -> Result<(), Failure> {
        let now = fixture.wait_up("steady")?;
        ensure_eq!((now.uid(), id(&now)?), (before.uid(), id(&before)?), "pod and container after {what}");
        Ok(())
    };
    // Written slowly, in place and without a rename: no part of it is a whole manifest.
    let path = fixture.managed().manifests().join("steady.json");
    for end in [0, 10, text.len() / 2, text.len() - 1] {
        std::fs::write(&path, &text[..end]).map_err(Failure::file(&path))?;
        std::thread::sleep(std::time::Duration::from_millis(300));
        unharmed(&fixture, &format!("{end} of {} bytes", text.len()))?;
    }
    wait_problem(&fixture, &["steady.json"])?;
    std::fs::write(&path, &text).map_err(Failure::file(&path))?;
    wait_no_problem(&fixture, "steady.json")?;
    unharmed(&fixture, "the whole manifest again")?;

    // A field of the wrong type: the problem has file, field and line.
    let wrong = "apiVersion: v1\nkind: Pod\nmetadata: {name: wrong}\nspec:\n  containers:\n  - name: c\n    image: [no]\n";
    fixture.managed().write_text("wrong", wrong)?;
    wait_problem(&fixture, &["wrong.json", "image", "7"])?;
    // A pod of the same name in another file.
    let copy = one("steady", "exit 1", json!({}));
    fixture.managed().write_text("zz-copy", &copy.to_string())?;
    wait_problem(&fixture, &["zz-copy.json", "steady"])?;
    unharmed(&fixture, "a second pod of its name")?;
    // Several YAML documents in one file.
    let documents = ["three", "four"].map(|name| one(name, STAY, json!({})).to_string()).join("\n---\n");
    fixture.managed().write_text("documents", &documents)?;
    fixture.wait_up("three")?;
    fixture.wait_up("four")?;
    // The directory disappears, which ends no pod, and comes back.
    let (manifests, away) = (fixture.managed().manifests().to_owned(), context.temp.join("away"));
    std::fs::rename(&manifests, &away).map_err(Failure::file(&manifests))?;
    wait_problem(&fixture, &[&manifests.display().to_string()])?;
    unharmed(&fixture, "the removal of its directory")?;
    ensure_eq!(fixture.list_pods()?.len(), 4, "pods without a directory");
    std::fs::rename(&away, &manifests).map_err(Failure::file(&away))?;
    for name in ["zz-copy", "wrong", "documents"] {
        fixture.managed().remove(name)?;
    }
    fixture.wait_gone(&["three", "four"])?;
    unharmed(&fixture, "the return of its directory")?;
    fixture.finish()
}
