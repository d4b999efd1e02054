//! Eviction of pods beyond their own limits of local storage.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::fixture::{RunningPod, chosen, critical, decisions, is_evicted, metric, output_of};
use crate::e2e::pods::fixture::PodFixture;
use crate::e2e::pods::manifest::{merged, pod, shell};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("eviction_beyond_storage_limits", beyond_limits).timeout(120).needs(super::ANYWHERE)];

/// A back-off long enough to check the evicted pods before they run again.
const SECTION: &str = "eviction: {backOffSeconds: 3}";

/// A pod that writes 3 MiB to `file` once, as soon as the file of its name in `orders` exists; `/data` is a
/// volume with this limit.
fn writer(
    orders: &Path,
    name: &str,
    file: &str,
    size_limit: Option<&str>,
    limits: Value,
    more: Value,
) -> Value {
    let script = format!(
        "trap 'exit 0' TERM; while true; do if test -e /orders/{name} && ! test -e /orders/{name}.done; then \
         dd if=/dev/zero of={file} bs=1048576 count=3; : > /orders/{name}.done; fi; sleep 0.1 & wait $!; done"
    );
    let empty = size_limit.map_or(json!({}), |limit| json!({ "sizeLimit": limit }));
    let volumes = json!([
        { "name": "orders", "hostPath": { "path": orders, "type": "Directory" } },
        { "name": "data", "emptyDir": empty },
    ]);
    let mounts =
        json!([{ "name": "orders", "mountPath": "/orders" }, { "name": "data", "mountPath": "/data" }]);
    let c = shell("c", &script, json!({ "volumeMounts": mounts, "resources": { "limits": limits } }));
    pod(name, merged(json!({ "volumes": volumes, "containers": [c] }), more))
}

/// Resources with this much local storage.
fn storage(limit: &str) -> Value {
    json!({ "ephemeral-storage": limit })
}

/// Name of the pod, signal and message of its eviction.
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

/// Pods beyond the limit of a volume, a container or the whole pod are evicted with the kubelet's message,
/// however much the node has free; critical pods are not.
fn beyond_limits(context: &Context) -> Result<(), Failure> {
    let orders = context.temp.join("orders");
    fs::create_dir_all(&orders).map_err(Failure::file(&orders))?;
    let mut fixture = PodFixture::with_config(context, "", SECTION)?;
    let mut layer = writer(&orders, "layer", "/f", None, storage("1Mi"), json!({}));
    let idle =
        shell("d", "while true; do sleep 600; done", json!({ "resources": { "limits": storage("50Mi") } }));
    if let Some(all) = layer["spec"]["containers"].as_array_mut() {
        all.push(idle);
    }
    fixture.put([
        writer(&orders, "volume", "/data/f", Some("1Mi"), json!({}), json!({})),
        writer(&orders, "total", "/data/f", None, storage("1Mi"), json!({})),
        layer,
        writer(&orders, "within", "/data/f", Some("20Mi"), storage("20Mi"), json!({})),
        writer(&orders, "critical", "/data/f", Some("1Mi"), json!({}), critical()),
    ])?;
    let names = ["volume", "total", "layer", "within", "critical"];
    let alive = names
        .iter()
        .map(|name| RunningPod::of(&fixture.wait_up(name)?))
        .collect::<Result<Vec<_>, Failure>>()?;
    for name in names {
        let file = orders.join(name);
        fs::write(&file, "").map_err(Failure::file(&file))?;
    }
    for (name, _, message) in BEYOND {
        let seen = fixture.wait_until(name, "evicted", 40, is_evicted)?;
        ensure_eq!(seen.text("/status/message"), message, "the message of {name}");
        let conditions = seen.0["status"]["conditions"].as_array().into_iter().flatten();
        let disrupted = conditions.filter(|own| own["type"] == "DisruptionTarget").count();
        ensure_eq!(disrupted, 0, "conditions DisruptionTarget of {name}");
    }
    for (name, signal, _) in BEYOND {
        let counted = metric(fixture.agent()?, "kubelet_evictions", ("eviction_signal", signal))?;
        ensure_eq!(counted, 1.0, "{signal}");
        let all = decisions(fixture.agent()?)?;
        let own = all.iter().find(|one| chosen(one).any(|who| who == name));
        let own =
            own.ok_or_else(|| Failure::Unexpected(format!("no decision that chose {name}: {all:?}")))?;
        ensure_eq!(
            own.signals.first().map(|one| one.signal.as_str()),
            Some(signal),
            "signal of the eviction of {name}"
        );
        let text = output_of(fixture.agent()?, &["explain", name])?;
        for word in [signal, "LIMIT", "1.00Mi", "evicted"] {
            ensure!(text.contains(word), "{word:?} is not in the explanation of {name}:\n{text}");
        }
    }
    for (name, ..) in BEYOND {
        let back = fixture.wait_up(name)?;
        let written = fixture.pod_dir(&back)?.join("volumes/kubernetes.io~empty-dir/data/f");
        ensure!(!written.exists(), "{name} runs again with the files that it had written");
    }
    // The pod within its limits and the critical pod are unchanged.
    for before in &alive[3..] {
        ensure_eq!(
            &RunningPod::of(&fixture.wait_up(&before.name)?)?,
            before,
            "a pod that must not be affected"
        );
    }
    eventually(context.patiently(20), "there is no decision on the critical pod", || {
        let all = decisions(fixture.agent()?)?;
        Ok(all
            .iter()
            .any(|one| one.outcome.starts_with("default/critical stays, being critical: Usage of"))
            .then_some(()))
    })?;
    fixture.finish()
}
