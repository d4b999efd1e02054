//! `nodewarden plan`: the cgroups and runtime parameters for some manifests; changes nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use super::CliError;
use super::events::Output;
use super::output::print;
use nodewarden_config as config;
use nodewarden_config::Overrides;
use nodewarden_hierarchy::{Plan, PlannedPod, file_values};
use nodewarden_machine::cgroup::control::Limits;
use nodewarden_pods::source::{Desired, manifests::Manifests};
use nodewarden_qos::ContainerParameters;

/// Print the cgroups, limits and runtime parameters that manifests lead to on this machine; changes nothing
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodewarden plan pod.yaml                                      every level, pod and container
  nodewarden plan --config /etc/nodewarden/config.yaml DIR      with the node's own settings
  nodewarden plan --output json DIR | jq '.pods[].limits'")]
pub struct PlanArgs {
    /// Manifests: files, or directories of them
    #[arg(required = true, value_name = "MANIFEST")]
    manifests: Vec<PathBuf>,
    /// KubeletConfiguration file with a `nodewarden:` section
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of drop-in files (*.conf), merged over the file in lexical order of their names
    #[arg(long, value_name = "DIR")]
    config_dir: Option<PathBuf>,
    /// Text or one JSON object
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub fn run(args: &PlanArgs) -> Result<(), CliError> {
    let config = config::load(args.config.as_deref(), args.config_dir.as_deref(), &Overrides::default())?;
    let desired = read(&args.manifests, &nodewarden_hierarchy::node_name(&config))?;
    let plan = Plan::of_this_machine(&config, &desired)?;
    let text = match args.output {
        Output::Text => text(&plan),
        Output::Json => format!("{}\n", json(&plan)),
    };
    Ok(print(&text)?)
}

/// The pods of all manifests. Fails with all problems if there is one.
fn read(manifests: &[PathBuf], node: &str) -> Result<Desired, CliError> {
    let mut all = Desired::default();
    let mut pods = Vec::new();
    for path in manifests {
        let some = Manifests::at(path, node);
        pods.extend(some.pods.iter().cloned());
        all.problems.extend(some.problems);
    }
    all.pods = pods.into();
    if all.problems.is_empty() {
        return Ok(all);
    }
    Err(CliError::Manifests { problems: all.problems.iter().map(ToString::to_string).collect() })
}

fn text(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let mut put = |indent: usize, head: &str, values: &[(String, String)]| {
        let _ = writeln!(out, "{:indent$}{head}", "");
        let width = values.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in values {
            let _ = writeln!(out, "{:indent$}  {name:width$}  {value}", "");
        }
    };
    for (path, limits) in &plan.levels {
        put(0, path, &file_values(limits, &plan.layout));
    }
    for pod in &plan.pods {
        let head = format!("{}  pod {}/{} {}", pod.path, pod.pod.namespace, pod.pod.name, pod.pod.qos);
        put(0, &head, &file_values(&pod.limits, &plan.layout));
        for (name, parameters) in &pod.containers {
            put(2, &format!("container {name}"), &parameters_text(parameters));
        }
    }
    out
}

fn parameters_text(parameters: &ContainerParameters) -> Vec<(String, String)> {
    let value = runtime(parameters);
    let fields = value.as_object().into_iter().flatten();
    fields
        .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect()
}

fn json(plan: &Plan) -> Value {
    let limits = |limits: &Limits| -> Map<String, Value> {
        file_values(limits, &plan.layout).into_iter().map(|(k, v)| (k, v.into())).collect()
    };
    let levels: Vec<_> =
        plan.levels.iter().map(|(path, l)| json!({ "path": path, "limits": limits(l) })).collect();
    let pod = |p: &PlannedPod| {
        let containers: BTreeMap<_, _> =
            p.containers.iter().map(|(name, c)| (name.clone(), json!({ "runtime": runtime(c) }))).collect();
        json!({
            "namespace": p.pod.namespace, "name": p.pod.name, "uid": p.pod.uid, "qos": p.pod.qos.to_string(),
            "path": p.path, "limits": limits(&p.limits), "containers": containers,
        })
    };
    json!({ "levels": levels, "pods": plan.pods.iter().map(pod).collect::<Vec<_>>() })
}

/// CRI's `LinuxContainerResources` as JSON with its field names; fields that are zero are left out.
fn runtime(p: &ContainerParameters) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    put("cpu_period", p.cpu_period.map(Value::from));
    put("cpu_quota", p.cpu_quota.map(Value::from));
    put("cpu_shares", Some(p.cpu_shares.into()));
    put("memory_limit_in_bytes", p.memory_limit_in_bytes.map(Value::from));
    put("memory_swap_limit_in_bytes", p.memory_swap_limit_in_bytes.map(Value::from));
    put("oom_score_adj", p.oom_score_adj.map(Value::from));
    let pages = p.hugepage_limits.iter().map(|(size, limit)| match limit {
        0 => json!({ "page_size": size.to_string() }),
        limit => json!({ "page_size": size.to_string(), "limit": limit }),
    });
    put("hugepage_limits", (!p.hugepage_limits.is_empty()).then(|| pages.collect()));
    put("unified", (!p.unified.is_empty()).then(|| json!(p.unified)));
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_machine::cgroup::control::PageSize;

    #[test]
    fn a_request_as_the_kubelet_sends_it() {
        let parameters = ContainerParameters {
            cpu_period: Some(100_000),
            cpu_shares: 2,
            oom_score_adj: Some(1000),
            hugepage_limits: [(PageSize(2 << 20), 0), (PageSize(1 << 30), 1 << 30)].into(),
            unified: [("memory.oom.group".into(), "1".into())].into(),
            ..ContainerParameters::default()
        };
        let expected = json!({
            "cpu_period": 100_000,
            "cpu_shares": 2,
            "oom_score_adj": 1000,
            "hugepage_limits": [{ "page_size": "2MB" }, { "page_size": "1GB", "limit": 1 << 30 }],
            "unified": { "memory.oom.group": "1" },
        });
        assert_eq!(runtime(&parameters), expected);
    }

    #[test]
    fn a_bad_manifest_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        std::fs::write(&path, "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec: {containers: []}\n")
            .unwrap();
        for given in [dir.path().to_owned(), path.clone()] {
            let error = read(&[given], "").unwrap_err().to_string();
            assert!(error.contains("a.yaml") && error.contains("spec.containers"), "{error}");
        }
        let missing = read(&["/nowhere/at-all.yaml".into()], "").unwrap_err().to_string();
        assert!(missing.contains("/nowhere/at-all.yaml"), "{missing}");
    }
}
