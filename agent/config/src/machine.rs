//! Settings that a machine may not support: what the kubelet refuses at its start, not when it reads its file
//! (pkg/kubelet/apis/config/validation/validation_linux.go, cmd/kubelet/app/server.go, NewContainerManager).

use super::Problem;
use super::node::{NodeSettings, SwapBehavior};

/// The properties of the machine that settings depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineFacts {
    /// cgroup v2 alone is mounted; hybrid counts as v1.
    pub unified: bool,
    /// Whether swap is enabled.
    pub swap_on: bool,
}

impl NodeSettings {
    /// The settings that this machine does not support; mode manage does not start with any.
    pub fn refused_on(&self, machine: MachineFacts) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut refuse = |field, value, expected| problems.push(Problem::new(field, value, expected));
        if !machine.unified {
            if self.fail_cgroup_v1 {
                refuse("failCgroupV1", "true", "false, because this machine has no pure cgroup v2");
            }
            if self.single_process_oom_kill == Some(false) {
                refuse(
                    "singleProcessOOMKill",
                    "false",
                    "true or nothing, because cgroup v1 kills single processes only",
                );
            }
            if self.swap_behavior == SwapBehavior::LimitedSwap {
                refuse(
                    "memorySwap.swapBehavior",
                    "LimitedSwap",
                    "NoSwap, because cgroup v1 cannot limit swap alone",
                );
            }
        }
        if machine.swap_on && self.fail_swap_on {
            refuse("failSwapOn", "true", "false, or no swap on this machine");
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_that_a_machine_refuses() {
        let on = |unified, swap_on, change: fn(&mut NodeSettings)| {
            let mut settings = NodeSettings::default();
            change(&mut settings);
            let problems = settings.refused_on(MachineFacts { unified, swap_on });
            problems.into_iter().map(|p| p.field).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(on(false, false, |_| {}), none);
        assert_eq!(on(true, true, |_| {}), ["failSwapOn"]);
        assert_eq!(on(true, true, |s| s.fail_swap_on = false), none);
        assert_eq!(on(false, false, |s| s.fail_cgroup_v1 = true), ["failCgroupV1"]);
        assert_eq!(on(false, false, |s| s.single_process_oom_kill = Some(false)), ["singleProcessOOMKill"]);
        assert_eq!(on(false, false, |s| s.single_process_oom_kill = Some(true)), none);
        assert_eq!(
            on(false, false, |s| s.swap_behavior = SwapBehavior::LimitedSwap),
            ["memorySwap.swapBehavior"]
        );
        let all = |s: &mut NodeSettings| {
            s.fail_cgroup_v1 = true;
            s.single_process_oom_kill = Some(false);
            s.swap_behavior = SwapBehavior::LimitedSwap;
        };
        assert_eq!(on(true, false, all), none);
        assert_eq!(on(false, true, all).len(), 4);
    }
}
