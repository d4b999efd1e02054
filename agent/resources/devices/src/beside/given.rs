//! What each running container was given, kept from when it was first seen: what is at a path later may be
//! another device.

use std::collections::BTreeMap;

use nodewarden_machine::cgroup::Layout;
use nodewarden_model::HostDevice;

use super::cgroup::Rules;
use super::guards::Seen;
use super::held::Held;
use super::loss::{Access as Verdict, Look, Losses, Place};
use super::node::{Numbers, name, numbers};
use crate::policy::Access;

/// A device that a container was given.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Device {
    numbers: Numbers,
    access: Access,
    certain: bool,
    /// The path is one of the machine, and not only of the container.
    on_machine: bool,
}

/// Devices by path, by container id.
#[derive(Debug, Clone, Default)]
pub struct Given(BTreeMap<String, BTreeMap<String, Device>>);

impl Given {
    /// Adds what the containers of a pod have that was not known before.
    pub fn add(&mut self, seen: &Seen, held: &[Held], by_runtime: &BTreeMap<String, Vec<HostDevice>>) {
        for container in &seen.containers {
            let own = self.0.entry(container.id.clone()).or_default();
            let of_it = held.iter().filter(|one| one.uid == seen.pod.uid && one.container == container.name);
            for grant in of_it.flat_map(|one| &one.grants) {
                own.entry(grant.device.path.clone()).or_insert(Device {
                    numbers: numbers(&grant.device),
                    access: grant.access,
                    certain: grant.certain,
                    on_machine: true,
                });
            }
            for found in by_runtime.get(&container.id).into_iter().flatten() {
                let numbers = numbers(found);
                // With which access is not said: what can be read is not lost.
                let device = Device { numbers, access: Access::READ, certain: true, on_machine: false };
                if own.values().all(|one| one.numbers != numbers) {
                    own.entry(found.path.clone()).or_insert(device);
                }
            }
        }
    }

    /// Forgets containers that are no more.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|id, _| is_there(id));
    }

    /// Looks at every device of every container whose cgroup has its rules. Blocks on files.
    pub fn looks(
        &self,
        seen: &[Seen],
        layout: &Layout,
        nodes: impl Fn(&str) -> Option<Vec<HostDevice>>,
        problems: &mut Vec<String>,
    ) -> Vec<Look> {
        let mut looks = Vec::new();
        for seen in seen {
            for container in seen.containers.iter().filter(|own| own.has_rules) {
                let Some(devices) = self.0.get(&container.id).filter(|own| !own.is_empty()) else { continue };
                let rules = match Rules::read(layout, &container.cgroup) {
                    Ok(rules) => Some(rules),
                    Err(error) if error.is_gone() => continue,
                    Err(error) => {
                        problems.push(format!("whether containers lose devices is not known: {error}"));
                        None
                    }
                };
                let look = |(path, device): (&String, &Device)| {
                    let by_rules = || {
                        rules
                            .as_ref()
                            .map_or(Verdict::Unknown, |own| own.verdict(device.numbers, device.access))
                    };
                    let gone = if device.on_machine { gone(path, device.numbers, nodes(path)) } else { None };
                    Look {
                        place: Place { id: container.id.clone(), device: device.numbers },
                        uid: seen.pod.uid.clone(),
                        container: container.name.clone(),
                        path: path.clone(),
                        certain: device.certain,
                        access: gone.map_or_else(by_rules, Verdict::Lost),
                    }
                };
                looks.extend(devices.iter().map(look));
            }
        }
        looks
    }

    /// Why a container has lost the device that it was given at this path; `None` if it has not.
    pub fn why(
        &self,
        seen: &[Seen],
        uid: &str,
        container: &str,
        path: &str,
        losses: &Losses,
    ) -> Option<String> {
        let pod = seen.iter().find(|seen| seen.pod.uid == uid)?;
        let mut of_it = pod.containers.iter().filter(|own| own.name == container);
        of_it.find_map(|own| {
            let device = self.0.get(&own.id)?.get(path)?.numbers;
            losses.why(&Place { id: own.id.clone(), device }).map(str::to_owned)
        })
    }
}

/// Why a device is no longer on the machine; `None` if it is. `found` is what is at its path.
fn gone(path: &str, device: Numbers, found: Option<Vec<HostDevice>>) -> Option<String> {
    let Some(found) = found else { return Some(format!("the machine no longer has {path}")) };
    let now = found.iter().map(numbers).collect::<Vec<_>>();
    match &now[..] {
        now if now.contains(&device) => None,
        [other, ..] => {
            Some(format!("{path} is {} now, and the container has {}", name(*other), name(device)))
        }
        [] => Some(format!("{path} is no longer a device")),
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_model::HostDeviceKind;

    use super::*;

    #[test]
    fn a_device_that_is_another_one_now_is_gone() {
        let at = |minor| HostDevice { path: "/dev/x".into(), kind: HostDeviceKind::Char, major: 240, minor };
        for (found, expected) in [
            (Some(vec![at(1)]), None),
            (None, Some("the machine no longer has /dev/x")),
            (Some(vec![at(2)]), Some("/dev/x is c 240:2 now, and the container has c 240:1")),
            (Some(vec![]), Some("/dev/x is no longer a device")),
            (Some(vec![at(2), at(1)]), None),
        ] {
            assert_eq!(gone("/dev/x", numbers(&at(1)), found).as_deref(), expected);
        }
    }
}
