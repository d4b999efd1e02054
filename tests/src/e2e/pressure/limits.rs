//! Limits of disk space that pods have of their own: who is beyond one goes, however much the node has left.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::site::{Alive, chosen, critical, decisions, is_evicted, metric, printed};
use crate::e2e::pods::manifest::{merged, pod, shell};
use crate::e2e::pods::stage::Stage;
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("eviction_beyond_own_limits", beyond_own).timeout(120).needs(super::ANYWHERE)];

/// Long enough that everything of the evicted ones is seen before they are back.
const SECTION: &str = "eviction: {backOffSeconds: 3}";

/// A pod that writes 3 MiB to `file` once it is told to, and never again; `/data` is a volume with this limit.
fn writer(
    told: &Path,
    name: &str,
    file: &str,
    size_limit: Option<&str>,
    limits: Value,
    more: Value,
) -> Value {
    let script = format!(
        "trap 'exit 0' TERM; while true; do if test -e /told/{name} && ! test -e /told/{name}.done; then \
         dd if=/dev/zero of={file} bs=1048576 count=3; : > /told/{name}.done; fi; sleep 0.1 & wait $!; done"
    );
    let empty = size_limit.map_or(json!({}), |limit| json!({ "sizeLimit": limit }));
    let volumes = json!([
        { "name": "told", "hostPath": { "path": told, "type": "Directory" } },
        { "name": "data", "emptyDir": empty },
    ]);
    let mounts = json!([{ "name": "told", "mountPath": "/told" }, { "name": "data", "mountPath": "/data" }]);
    let c = shell("c", &script, json!({ "volumeMounts": mounts, "resources": { "limits": limits } }));
    pod(name, merged(json!({ "volumes": volumes, "containers": [c] }), more))
}

fn storage(limit: &str) -> Value {
    json!({ "ephemeral-storage": limit })
}

/// Name, what it is counted as, and the message.
const BEYOND: [(&str, &str, &str); 3] = [
    ("volume", "emptydirfs.limit", "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". "),
    (
        "total",
        "ephemeralpodfs.limit",
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
    ),
    (
        "layer",
        "ephemeralcontainerfs.limit",
        "Container c exceeded its local ephemeral storage limit \"1Mi\". ",
    ),
];

fn beyond_own(context: &Context) -> Result<(), Failure> {
    let told = context.temp.join("told");
    fs::create_dir_all(&told).map_err(Failure::file(&told))?;
    let mut stage = Stage::with(context, "", SECTION)?;
    let mut layer = writer(&told, "layer", "/f", None, storage("1Mi"), json!({}));
    let idle =
        shell("d", "while true; do sleep 600; done", json!({ "resources": { "limits": storage("50Mi") } }));
    if let Some(all) = layer["spec"]["containers"].as_array_mut() {
        all.push(idle);
    }
    stage.put([
        writer(&told, "volume", "/data/f", Some("1Mi"), json!({}), json!({})),
        writer(&told, "total", "/data/f", None, storage("1Mi"), json!({})),
        layer,
        writer(&told, "within", "/data/f", Some("20Mi"), storage("20Mi"), json!({})),
        writer(&told, "critical", "/data/f", Some("1Mi"), json!({}), critical()),
    ])?;
    let names = ["volume", "total", "layer", "within", "critical"];
    let alive = names.iter().map(|name| Alive::of(&stage.up(name)?)).collect::<Result<Vec<_>, Failure>>()?;
    for name in names {
        let file = told.join(name);
        fs::write(&file, "").map_err(Failure::file(&file))?;
    }
    for (name, _, message) in BEYOND {
        let seen = stage.until(name, "evicted", 40, is_evicted)?;
        ensure_eq!(seen.text("/status/message"), message, "the message of {name}");
        let conditions = seen.0["status"]["conditions"].as_array().into_iter().flatten();
        let disrupted = conditions.filter(|own| own["type"] == "DisruptionTarget").count();
        ensure_eq!(disrupted, 0, "conditions DisruptionTarget of {name}");
    }
    for (name, signal, _) in BEYOND {
        let counted = metric(stage.agent()?, "kubelet_evictions", ("eviction_signal", signal))?;
        ensure_eq!(counted, 1.0, "{signal}");
        let all = decisions(stage.agent()?)?;
        let own = all.iter().find(|one| chosen(one).any(|who| who == name));
        let own =
            own.ok_or_else(|| Failure::Unexpected(format!("no decision that chose {name}: {all:?}")))?;
        ensure_eq!(own.signals.first().map(|one| one.signal.as_str()), Some(signal), "why {name} had to go");
        let text = printed(stage.agent()?, &["explain", name])?;
        for word in [signal, "LIMIT", "1.00Mi", "had to go"] {
            ensure!(text.contains(word), "{word:?} is not in the explanation of {name}:\n{text}");
        }
    }
    for (name, ..) in BEYOND {
        let back = stage.up(name)?;
        let written = stage.home_of(&back)?.join("volumes/kubernetes.io~empty-dir/data/f");
        ensure!(!written.exists(), "{name} is back with what it had written");
    }
    // Those within their limits, and those that never go, are as they were.
    for before in &alive[3..] {
        ensure_eq!(&Alive::of(&stage.up(&before.name)?)?, before, "a pod that was to be left alone");
    }
    eventually(context.patiently(20), "nothing is said of the critical one", || {
        let all = decisions(stage.agent()?)?;
        Ok(all
            .iter()
            .any(|one| one.outcome.starts_with("default/critical stays, being critical: Usage of"))
            .then_some(()))
    })?;
    stage.finish()
}
