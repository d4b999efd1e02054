//! The cgroups that some pods would get on this machine, without creating them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::HierarchyError;
use super::entry::{Value, entries};
use super::machine;
use nodewarden_config::Config;
use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::cgroup::control::{Limits, Manager};
use nodewarden_machine::node::gather::Sources;
use nodewarden_manifest::Pod;
use nodewarden_pods::source::Desired;
use nodewarden_qos as qos;
use nodewarden_qos::container::{parameters, sandbox};
use nodewarden_qos::{ContainerParameters, Levels, Role};

/// The planned cgroups.
#[derive(Debug)]
pub struct Plan {
    /// The machine's cgroup hierarchies.
    pub layout: Arc<Layout>,
    /// Limits of the node and QoS levels, by path.
    pub levels: BTreeMap<String, Limits>,
    /// The pods.
    pub pods: Vec<PlannedPod>,
}

/// A pod and its planned cgroup.
#[derive(Debug)]
pub struct PlannedPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Path of its cgroup, relative to the mounts.
    pub path: String,
    /// Limits of its cgroup.
    pub limits: Limits,
    /// The resources that the runtime would be given, by container; `<sandbox>` among them.
    pub containers: BTreeMap<String, ContainerParameters>,
}

impl Plan {
    /// The plan for this machine with its configured driver.
    ///
    /// # Errors
    /// The machine's cgroups or its capacity cannot be read, or a cgroup name is invalid.
    pub fn of_this_machine(config: &Config, desired: &Desired) -> Result<Self, HierarchyError> {
        let settings = &config.node;
        let layout = Arc::new(Layout::detect()?);
        let manager = Manager::new(machine::driver_to_name(settings.cgroup_driver, &layout), layout.clone());
        let root = |source| HierarchyError::Name {
            field: "cgroupRoot",
            value: settings.cgroup_root.clone(),
            source,
        };
        let levels = Levels::below(&settings.cgroup_root).map_err(root)?;
        let facts = machine::facts(&layout, &manager.path(&levels.kubepods));
        let capacity = Sources::default().capacity(existing(&config.state_dir))?;
        let node = qos::Node { settings, capacity: &capacity, facts: &facts };
        let pods: BTreeMap<&str, &Arc<Pod>> =
            desired.pods.iter().map(|s| (s.pod.uid.as_str(), &s.pod)).collect();
        let name = |source| HierarchyError::Name { field: "metadata.uid", value: String::new(), source };
        let tree = qos::tree(pods.values().map(|p| &***p), node).map_err(name)?;
        let mut plan = Self { layout: layout.clone(), levels: BTreeMap::new(), pods: Vec::new() };
        for (name, group) in tree.groups {
            let (path, limits) = (manager.path(&name), manager.settled(&group.limits));
            match &group.role {
                Role::Pod { uid } => {
                    let Some(pod) = pods.get(uid.as_str()) else { continue };
                    let pod = Arc::clone(pod);
                    let containers = containers(&pod, node);
                    plan.pods.push(PlannedPod { pod, path, limits, containers });
                }
                Role::Node | Role::Class(_) => drop(plan.levels.insert(path, limits)),
            }
        }
        Ok(plan)
    }
}

fn containers(pod: &Pod, node: qos::Node<'_>) -> BTreeMap<String, ContainerParameters> {
    pod.init_containers
        .iter()
        .chain(&pod.containers)
        .map(|c| (c.name.clone(), parameters(pod, c, node)))
        .chain([("<sandbox>".to_owned(), sandbox(pod, node))])
        .collect()
}

/// Limits as pairs of file name and content.
pub fn file_values(limits: &Limits, layout: &Layout) -> Vec<(String, String)> {
    entries(limits)
        .into_iter()
        .flat_map(|(limit, value)| {
            let file = limit.file_in(layout);
            match value {
                Value::Quota(q) if file == "cpu.cfs_quota_us" => vec![
                    (file, q.quota_us.to_string()),
                    ("cpu.cfs_period_us".to_owned(), q.period_us.to_string()),
                ],
                value => vec![(file, value.to_string())],
            }
        })
        .collect()
}

/// The nearest existing directory at or above `path`: the state directory may not exist yet.
fn existing(path: &Path) -> Option<&Path> {
    path.ancestors().find(|p| p.is_dir())
}
