//! What would be made of some pods on this machine, without making it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::ManageError;
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

/// Every level and every pod.
#[derive(Debug)]
pub struct Plan {
    pub layout: Arc<Layout>,
    /// By path.
    pub levels: BTreeMap<String, Limits>,
    pub pods: Vec<PlannedPod>,
}

/// One pod.
#[derive(Debug)]
pub struct PlannedPod {
    pub pod: Arc<Pod>,
    pub path: String,
    pub limits: Limits,
    /// What the runtime would be told, by container; `<sandbox>` among them.
    pub containers: BTreeMap<String, ContainerParameters>,
}

impl Plan {
    /// For the machine that this runs on, by its configured driver.
    ///
    /// # Errors
    /// The machine's cgroups or its capacity cannot be read, or a name cannot be one.
    pub fn of_this_machine(config: &Config, desired: &Desired) -> Result<Self, ManageError> {
        let settings = &config.node;
        let layout = Arc::new(Layout::detect()?);
        let manager = Manager::new(machine::driver_to_name(settings.cgroup_driver, &layout), layout.clone());
        let root =
            |source| ManageError::Name { field: "cgroupRoot", value: settings.cgroup_root.clone(), source };
        let levels = Levels::below(&settings.cgroup_root).map_err(root)?;
        let facts = machine::facts(&layout, &manager.path(&levels.kubepods));
        let capacity = Sources::default().capacity(existing(&config.state_dir))?;
        let node = qos::Node { settings, capacity: &capacity, facts: &facts };
        let pods: BTreeMap<&str, &Arc<Pod>> =
            desired.pods.iter().map(|s| (s.pod.uid.as_str(), &s.pod)).collect();
        let name = |source| ManageError::Name { field: "metadata.uid", value: String::new(), source };
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

/// Limits as files and what is in them.
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

/// The nearest directory above that is there: the state directory may not have been made yet.
fn existing(path: &Path) -> Option<&Path> {
    path.ancestors().find(|p| p.is_dir())
}
