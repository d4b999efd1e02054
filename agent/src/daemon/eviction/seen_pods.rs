//! The pods that eviction chooses from in mode observe.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use nodewarden_eviction::Subject;
use nodewarden_eviction::engine::Subjects;
use nodewarden_manifest::Pod;
use nodewarden_model::Identity;
use nodewarden_observer::Observer;

/// Every pod whose cgroup is seen. Manifests are not known: memory requests are read from `oom_score_adj`,
/// and every priority counts as 0.
pub struct SeenPods(pub Arc<Observer>);

impl Subjects for SeenPods {
    fn pods(&self) -> Vec<Subject> {
        let groups: Vec<(Arc<Identity>, Arc<str>, Timestamp)> = {
            let registry = self.0.registry.lock();
            let there = registry.groups().filter(|group| group.removed.is_none());
            there.map(|group| (group.identity.clone(), group.path.clone(), group.created)).collect()
        };
        let mut containers: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for (identity, ..) in &groups {
            if let Identity::Container { pod_uid, id, names, sandbox: false, .. } =
                &*self.0.names.name(identity)
            {
                let name = names.as_ref().map_or_else(|| id.clone(), |names| names.name.clone());
                containers.entry(pod_uid.clone()).or_default().push((name, id.clone()));
            }
        }
        let subject = |(identity, path, created): &(Arc<Identity>, Arc<str>, Timestamp)| {
            let named = self.0.names.name(identity);
            let Identity::Pod { uid, qos, names } = &*named else { return None };
            let names = names.clone().unwrap_or_default();
            let own = containers.get(uid).cloned().unwrap_or_default();
            let mut pod = placeholder(uid, &names.namespace, &names.name, &own)?;
            pod.qos = *qos;
            Some(Subject {
                pod: Arc::new(pod),
                cgroup: path.to_string(),
                started: *created,
                pod_dir: PathBuf::new(),
                logs: PathBuf::new(),
                containers: own,
            })
        };
        groups.iter().filter_map(subject).collect()
    }

    fn leaving(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A pod of which only the names are known; `None` if they are no valid names.
fn placeholder(uid: &str, namespace: &str, name: &str, containers: &[(String, String)]) -> Option<Pod> {
    let known = |text: &str, or: &str| if text.is_empty() { or.to_owned() } else { text.to_owned() };
    let container = |(name, _): &(String, String)| v1::Container {
        name: name.chars().take(63).collect(),
        image: Some("unknown".into()),
        ..Default::default()
    };
    let mut all: Vec<v1::Container> = containers.iter().map(container).collect();
    if all.is_empty() {
        all.push(container(&("unknown".into(), String::new())));
    }
    let pod = v1::Pod {
        metadata: ObjectMeta {
            uid: Some(uid.to_owned()),
            namespace: Some(known(namespace, "unknown")),
            name: Some(known(name, &format!("pod{uid}"))),
            ..Default::default()
        },
        spec: Some(v1::PodSpec { containers: all, ..Default::default() }),
        ..Default::default()
    };
    Pod::from_kubernetes(pod).ok()
}
