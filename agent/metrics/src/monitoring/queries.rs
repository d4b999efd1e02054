//! The queries of dashboards and rules.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// A query, and where it stands.
pub struct Query {
    pub place: String,
    pub text: String,
    pub is_alert: bool,
}

impl Query {
    /// The query with values for Grafana's variables.
    pub fn runnable(&self) -> String {
        let variables =
            [("$__rate_interval", "5m"), ("$instance", ".*"), ("$namespace", ".*"), ("$pod", ".*")];
        variables.iter().fold(self.text.clone(), |text, (name, value)| text.replace(name, value))
    }
}

/// Every query below `folder`.
pub fn all(folder: &Path) -> Vec<Query> {
    let mut queries = Vec::new();
    for entry in fs::read_dir(folder.join("dashboards")).unwrap() {
        let path = entry.unwrap().path();
        let dashboard: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        of_dashboard(&dashboard, &name, &mut queries);
    }
    for name in ["alerts.yaml", "recording.yaml"] {
        for rule in rules(&folder.join("rules").join(name)) {
            let title = rule["alert"].as_str().or(rule["record"].as_str()).unwrap();
            queries.push(Query {
                place: format!("{name}, {title}"),
                text: rule["expr"].as_str().unwrap().to_owned(),
                is_alert: rule["alert"].is_string(),
            });
        }
    }
    queries
}

/// Queries of panels, and of variables, which ask for the values of a label.
fn of_dashboard(dashboard: &Value, name: &str, queries: &mut Vec<Query>) {
    let add = |title: &Value, text: &str| Query {
        place: format!("{name}, {}", title.as_str().unwrap()),
        text: text.to_owned(),
        is_alert: false,
    };
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            queries.push(add(&panel["title"], target["expr"].as_str().unwrap()));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let Some(text) = variable["query"]["query"].as_str() else { continue };
        let inner = text.strip_prefix("label_values(").unwrap().rsplit_once(", ").unwrap();
        queries.push(add(&variable["label"], inner.0));
    }
}

/// Name and link to the runbook of each alert, in order.
pub fn alerts(folder: &Path) -> Vec<(String, String)> {
    let rules = rules(&folder.join("rules/alerts.yaml"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rules.iter().map(|rule| (text(&rule["alert"]), text(&rule["annotations"]["runbook_url"]))).collect()
}

fn rules(path: &Path) -> Vec<Value> {
    let document: Value = serde_yaml_ng::from_slice(&fs::read(path).unwrap()).unwrap();
    let groups = document["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}
