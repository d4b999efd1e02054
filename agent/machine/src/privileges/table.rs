//! Which capability is for what. The agent keeps those of what it does, `nodewarden status` shows them, and
//! the threat model (docs/security.md) has this table.

use super::capability::Capability::{
    self, CapBpf, CapChown, CapDacOverride, CapDacReadSearch, CapFowner, CapFsetid, CapKill, CapNetAdmin,
    CapPerfmon, CapSetpcap, CapSysAdmin, CapSysNice, CapSysPtrace, CapSysResource, CapSyslog,
};
use super::capability::CapabilitySet;
use nodewarden_model::HeldCapability;

/// Something that the agent does after its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumIter)]
pub enum Use {
    /// It observes cgroups and decides on evictions: every mode.
    Observe,
    /// Kernel programs are loaded.
    Programs,
    /// Kernel programs are loaded, and the kernel is older than 5.8, which has no CAP_BPF.
    ProgramsBeforeCapBpf,
    /// Kernel programs are loaded, and the kernel is older than 5.7: what is attached to a cgroup is detached
    /// by a call.
    ProgramsBeforeCgroupLinks,
    /// `programStats: Sampled`: the kernel measures the programs from time to time.
    SampledProgramStats,
    /// Kernel programs are attached when the first container gets exclusive CPUs: mode manage.
    ExclusiveCpus,
    /// Pods are killed by the agent: mode manage, and mode augment where `eviction` is `Enforce`.
    Kill,
    /// Daemons are protected: mode augment with `protection`.
    Protect,
    /// The device programs of others are read: mode augment with `devices`.
    DevicePrograms,
    /// Pods are run: mode manage.
    Pods,
}

/// A capability, and what it is needed for after the start.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// The capability.
    pub capability: Capability,
    /// What needs it.
    pub of: Use,
    /// For what.
    pub why: &'static str,
}

const fn need(capability: Capability, of: Use, why: &'static str) -> Need {
    Need { capability, of, why }
}

/// What is needed after the start, in the order in which it is shown.
pub const NEEDS: &[Need] = &[
    need(CapBpf, Use::Programs, "read and write the maps of the kernel programs"),
    need(CapPerfmon, Use::ExclusiveCpus, "attach the programs of exclusive CPUs when the first one is given"),
    need(
        CapNetAdmin,
        Use::ProgramsBeforeCgroupLinks,
        "detach the programs of the topic network (before Linux 5.7)",
    ),
    need(
        CapNetAdmin,
        Use::DevicePrograms,
        "list the device programs that apply to a container (nodewarden.augment.devices)",
    ),
    need(
        CapSysAdmin,
        Use::SampledProgramStats,
        "switch on the kernel's statistics of programs (programStats: Sampled)",
    ),
    need(
        CapSysAdmin,
        Use::ProgramsBeforeCapBpf,
        "read and write the maps of the kernel programs (before Linux 5.8)",
    ),
    need(
        CapSysAdmin,
        Use::DevicePrograms,
        "read which devices the runtime's and systemd's programs let containers open (nodewarden.augment.devices)",
    ),
    need(CapSysAdmin, Use::Pods, "mount volumes, set project quotas, write device rules of cgroup v1"),
    need(CapSysResource, Use::Observe, "watch pressure in short windows"),
    need(CapSysResource, Use::Protect, "lower oom_score_adj of daemons"),
    need(CapSysResource, Use::Pods, "lower oom_score_adj of the runtime"),
    need(CapSysPtrace, Use::Observe, "read /proc of other users' processes"),
    need(CapDacReadSearch, Use::Observe, "read cgroup files and directories whatever their mode"),
    need(CapSysNice, Use::Observe, "raise the priority of the threads that receive events and evict"),
    need(CapKill, Use::Kill, "kill processes of evicted and ended pods (v1, or before Linux 5.14)"),
    need(CapDacOverride, Use::Protect, "write oom_score_adj of other users' processes"),
    need(CapDacOverride, Use::Pods, "write and remove files of volumes whatever their owner"),
    need(CapChown, Use::Pods, "set owners of volumes' and logs' files"),
    need(CapFowner, Use::Pods, "set modes and project ids of volumes' files"),
    need(CapFsetid, Use::Pods, "set the setgid bit of volumes' directories"),
];

/// What is needed only until the agent has started.
pub const START: &[(Capability, &str)] = &[
    (CapBpf, "load the kernel programs"),
    (CapPerfmon, "attach them to tracepoints, and in mode augment to a function"),
    (CapNetAdmin, "attach them to a cgroup's network hooks"),
    (
        CapSysAdmin,
        "switch on the kernel's statistics of programs' run times, and in modes augment and manage have fanotify report writes to cgroups",
    ),
    (CapSysResource, "raise its own limits (locked memory, open files)"),
    (CapSyslog, "see addresses in /proc/kallsyms"),
    (CapSetpcap, "give up capabilities for all programs that it starts"),
];

/// The capabilities of what the agent does.
pub fn kept(uses: &[Use]) -> CapabilitySet {
    needed(uses).map(|need| need.capability).collect()
}

/// The capabilities that are held, each with what it is for; without a reason if nothing needs it.
pub fn explain(held: CapabilitySet, uses: &[Use]) -> Vec<HeldCapability> {
    let why = |name: &str| {
        let reasons = needed(uses).filter(|need| need.capability.name() == name).map(|need| need.why);
        reasons.collect::<Vec<_>>().join("; ")
    };
    held.names().into_iter().map(|name| HeldCapability { why: why(&name), name }).collect()
}

fn needed(uses: &[Use]) -> impl Iterator<Item = &'static Need> {
    NEEDS.iter().filter(|need| uses.contains(&need.of))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use strum::IntoEnumIterator;

    use super::*;

    const UNIT: &str = include_str!("../../../../deploy/nodewarden.service");
    const CHART: &str = include_str!("../../../../deploy/chart/nodewarden/templates/daemonset.yaml");
    const THREATS: &str = include_str!("../../../../docs/security.md");

    /// The names of a capability set as systemd writes them.
    fn of_unit() -> Vec<&'static str> {
        let line = UNIT.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
        let mut all: Vec<&str> = line.split(' ').collect();
        all.sort_unstable();
        all
    }

    /// What mode observe needs, at the start or later.
    fn of_observe() -> Vec<&'static str> {
        let observe = [
            Use::Observe,
            Use::Programs,
            Use::ProgramsBeforeCapBpf,
            Use::ProgramsBeforeCgroupLinks,
            Use::SampledProgramStats,
        ];
        let mut all: Vec<&str> = needed(&observe).map(|need| need.capability.name()).collect();
        all.extend(START.iter().map(|(capability, _)| capability.name()));
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn the_shipped_unit_and_the_chart_give_what_mode_observe_needs() {
        assert_eq!(of_unit(), of_observe());
        let line = CHART.lines().find_map(|line| line.trim().strip_prefix("add: [")).unwrap();
        let mut chart: Vec<String> =
            line.trim_end_matches(']').split(", ").map(|name| format!("CAP_{name}")).collect();
        chart.sort_unstable();
        assert_eq!(chart, of_observe());
        // The unit's comment says what each is for.
        for name in of_observe() {
            let short = name.trim_start_matches("CAP_");
            assert!(UNIT.lines().any(|line| line.starts_with('#') && line.contains(short)), "{name}");
        }
    }

    /// The rows of docs/security.md: each capability and each reason, in the order of this table.
    #[test]
    fn the_threat_model_has_this_table() {
        let rows = |needs: &mut dyn Iterator<Item = (Capability, String, &str)>| {
            needs.map(|(own, when, why)| format!("| {} | {when} | {why} |\n", own.name())).collect::<String>()
        };
        let start = rows(&mut START.iter().map(|(own, why)| (*own, "start".to_owned(), *why)));
        let later = rows(&mut NEEDS.iter().map(|own| (own.capability, words(own.of).to_owned(), own.why)));
        for part in [start, later] {
            assert!(THREATS.contains(&part), "docs/security.md should have:\n{part}");
        }
    }

    /// How the document calls what the agent does.
    fn words(of: Use) -> &'static str {
        match of {
            Use::Observe => "always",
            Use::Programs | Use::ProgramsBeforeCapBpf | Use::ProgramsBeforeCgroupLinks => "eBPF",
            Use::SampledProgramStats => "eBPF, by default",
            Use::ExclusiveCpus | Use::Pods => "manage",
            Use::Kill => "manage; augment with eviction",
            Use::Protect => "augment with protection",
            Use::DevicePrograms => "augment with devices",
        }
    }

    #[test]
    fn mode_observe_gives_up_what_is_only_for_the_start() {
        let held = kept(&[Use::Observe, Use::Programs]);
        assert_eq!(
            held.to_string(),
            "CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYS_NICE, CAP_SYS_RESOURCE, CAP_BPF"
        );
        let sampled = kept(&[Use::Observe, Use::Programs, Use::SampledProgramStats]);
        assert_eq!(sampled.without(held).to_string(), "CAP_SYS_ADMIN");
    }

    #[test]
    fn what_is_held_is_explained_by_what_is_done() {
        let held: CapabilitySet = [CapSysAdmin, CapSyslog].into_iter().collect();
        let explained = explain(held, &[Use::Pods, Use::SampledProgramStats]);
        assert_eq!(explained[0].name, "CAP_SYS_ADMIN");
        assert!(explained[0].why.contains("programStats") && explained[0].why.contains("mount volumes"));
        assert_eq!((explained[1].name.as_str(), explained[1].why.as_str()), ("CAP_SYSLOG", ""));
    }

    proptest! {
        /// Whatever is done in addition, nothing is lost, and no capability is kept without a reason.
        #[test]
        fn more_uses_keep_more(chosen in proptest::sample::subsequence(Use::iter().collect::<Vec<_>>(), 0..=10), more in 0usize..10) {
            let extra = Use::iter().nth(more).unwrap();
            let wider: Vec<Use> = chosen.iter().copied().chain([extra]).collect();
            prop_assert!(kept(&chosen).without(kept(&wider)).is_empty());
            prop_assert!(explain(kept(&chosen), &chosen).iter().all(|own| !own.why.is_empty()));
        }

        /// setpcap, setuid and their like are never kept.
        #[test]
        fn what_makes_a_way_back_is_never_kept(chosen in proptest::sample::subsequence(Use::iter().collect::<Vec<_>>(), 0..=10)) {
            let never = [CapSetpcap, Capability::CapSetuid, Capability::CapSysModule, Capability::CapSysRawio, Capability::CapSysBoot, Capability::CapMknod, CapSyslog];
            prop_assert!(never.into_iter().all(|own| !kept(&chosen).has(own)));
        }
    }
}
