//! Events about enforcing node allocatable, as by a kubelet (`enforceNodeAllocatableCgroups` in
//! pkg/kubelet/cm/node_container_manager_linux.go): that the limits of the cgroup above all pods, and of the
//! reserved cgroups, were set, or why not. Pure.
//!
//! A kubelet reports each once at its start, and a failure every minute. Here a failure is reported again
//! when its cause changes, and success once more after a failure.

use std::collections::BTreeMap;

use nodewarden_config::{Enforce, NodeSettings};

/// The kubelet's reasons (pkg/kubelet/events/event.go).
const SUCCESSFUL: &str = "NodeAllocatableEnforced";
const FAILED: &str = "FailedNodeAllocatableEnforcement";

/// A cgroup whose limits enforce node allocatable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Enforced {
    /// The cgroup above all pods.
    Pods,
    /// The cgroup of this name in the settings.
    Reserved(Enforce, String),
}

/// Whether the limits were set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnforcementResult {
    Done,
    /// With the reason.
    Failed(String),
}

/// What was reported of each cgroup last.
#[derive(Debug, Default)]
pub struct Enforcement(BTreeMap<Enforced, EnforcementResult>);

impl Enforced {
    /// The cgroups that the settings ask for.
    pub fn of(settings: &NodeSettings) -> Vec<Self> {
        // Without a cgroup of their own there is no level above the pods.
        let pods = settings.cgroups_per_qos.then_some(Self::Pods);
        let reserved = settings.enforce.iter().filter_map(|enforce| {
            let cgroup = match enforce {
                Enforce::Pods => return None,
                Enforce::SystemReserved | Enforce::SystemReservedCompressible => {
                    &settings.system_reserved_cgroup
                }
                Enforce::KubeReserved | Enforce::KubeReservedCompressible => &settings.kube_reserved_cgroup,
            };
            Some(Self::Reserved(*enforce, cgroup.clone()?))
        });
        pods.into_iter().chain(reserved).collect()
    }

    /// The kubelet's message; `path` is that of the cgroup above all pods.
    fn message(&self, path: &str, result: &EnforcementResult) -> String {
        use EnforcementResult::{Done, Failed};
        match (self, result) {
            (Self::Pods, Done) => "Updated Node Allocatable limit across pods".to_owned(),
            (Self::Pods, Failed(why)) => {
                // The kubelet's name of a cgroup is the list of its parts.
                let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
                format!("Failed to update Node Allocatable Limits {parts:?}: {why}")
            }
            (Self::Reserved(enforce, cgroup), Done) => {
                let whose = match enforce {
                    Enforce::SystemReserved | Enforce::SystemReservedCompressible => "system",
                    _ => "kube",
                };
                format!("Updated limits on {whose} reserved cgroup {cgroup}")
            }
            (Self::Reserved(enforce, cgroup), Failed(why)) => {
                let what = match enforce {
                    Enforce::SystemReserved => "System Reserved",
                    Enforce::SystemReservedCompressible => "System Reserved Compressible",
                    Enforce::KubeReservedCompressible => "Kube Reserved Compressible",
                    _ => "Kube Reserved",
                };
                format!("Failed to enforce {what} Cgroup Limits on {cgroup:?}: {why}")
            }
        }
    }
}

impl Enforcement {
    /// Takes over a result. Returns reason and message of the event if it is news.
    pub fn report(
        &mut self,
        cgroup: &Enforced,
        path: &str,
        result: EnforcementResult,
    ) -> Option<(&'static str, String)> {
        if self.0.get(cgroup) == Some(&result) {
            return None;
        }
        let reason = if result == EnforcementResult::Done { SUCCESSFUL } else { FAILED };
        let message = cgroup.message(path, &result);
        self.0.insert(cgroup.clone(), result);
        Some((reason, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(why: &str) -> EnforcementResult {
        EnforcementResult::Failed(why.to_owned())
    }

    #[test]
    fn the_kubelets_words() {
        use EnforcementResult::Done;
        let reserved = |enforce, cgroup: &str| Enforced::Reserved(enforce, cgroup.to_owned());
        for (cgroup, result, reason, message) in [
            (Enforced::Pods, Done, SUCCESSFUL, "Updated Node Allocatable limit across pods"),
            (
                Enforced::Pods,
                failed("no"),
                FAILED,
                "Failed to update Node Allocatable Limits [\"a\", \"kubepods\"]: no",
            ),
            (
                reserved(Enforce::SystemReserved, "/system"),
                Done,
                SUCCESSFUL,
                "Updated limits on system reserved cgroup /system",
            ),
            (
                reserved(Enforce::SystemReservedCompressible, "/system"),
                failed("no"),
                FAILED,
                "Failed to enforce System Reserved Compressible Cgroup Limits on \"/system\": no",
            ),
            (
                reserved(Enforce::KubeReservedCompressible, "/kube"),
                Done,
                SUCCESSFUL,
                "Updated limits on kube reserved cgroup /kube",
            ),
            (
                reserved(Enforce::KubeReserved, "/kube"),
                failed("no"),
                FAILED,
                "Failed to enforce Kube Reserved Cgroup Limits on \"/kube\": no",
            ),
        ] {
            let reported = Enforcement::default().report(&cgroup, "/a/kubepods", result);
            assert_eq!(reported, Some((reason, message.to_owned())));
        }
    }

    #[test]
    fn only_news_is_reported() {
        let mut enforcement = Enforcement::default();
        let mut report =
            |result| enforcement.report(&Enforced::Pods, "/kubepods", result).map(|(reason, _)| reason);
        assert_eq!(report(failed("a")), Some(FAILED));
        assert_eq!(report(failed("a")), None);
        assert_eq!(report(failed("b")), Some(FAILED));
        assert_eq!(report(EnforcementResult::Done), Some(SUCCESSFUL));
        assert_eq!(report(EnforcementResult::Done), None);
    }

    #[test]
    fn cgroups_of_the_settings() {
        let mut settings = NodeSettings::default();
        assert_eq!(Enforced::of(&settings), [Enforced::Pods]);
        settings.enforce = vec![Enforce::SystemReserved, Enforce::KubeReservedCompressible];
        settings.system_reserved_cgroup = Some("/system".into());
        settings.kube_reserved_cgroup = Some("/kube".into());
        // The kubelet reports the level above the pods whether it has limits or not.
        assert_eq!(
            Enforced::of(&settings),
            [
                Enforced::Pods,
                Enforced::Reserved(Enforce::SystemReserved, "/system".into()),
                Enforced::Reserved(Enforce::KubeReservedCompressible, "/kube".into()),
            ]
        );
        settings.cgroups_per_qos = false;
        assert_eq!(Enforced::of(&settings).len(), 2);
    }
}
