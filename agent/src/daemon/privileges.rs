//! What the agent may do once it has started: what its mode and features need, and nothing else.

use std::path::Path;
use std::time::Duration;

use tracing::{info, warn};

use nodewarden_config::{Config, Enforcement, Mode, ProgramStats};
use nodewarden_machine::privileges::{
    Held, Mounts, PrivilegesError, Use, explain, keep_only, kept, refuse, refused,
};
use nodewarden_model as model;
use nodewarden_observer::Observer;

/// How long threads may take that are in the kernel.
const LONGEST: Duration = Duration::from_secs(5);

/// The threads of this process.
const THREADS: &str = "/proc/self/task";

/// What was given up, and why something was not.
pub struct Privileges {
    uses: Vec<Use>,
    mounts: Mounts,
    /// The agent's own filter of system calls is in place.
    filtered: bool,
    given_up: Vec<String>,
    problem: String,
}

impl Privileges {
    /// Gives up, in every thread, the capabilities that the configuration does not need, and has dangerous
    /// system calls refused. What fails is in the log and in the status: the agent works with more privileges
    /// too.
    pub fn settle(config: &Config, observer: &Observer) -> Self {
        let programs = observer.kernel.lock().is_some();
        let uses = uses(config, programs, &observer.facts.kernel_version);
        let mounts = if config.mode == Mode::Manage { Mounts::Allowed } else { Mounts::Refused };
        let mut settled =
            Self { uses, mounts, filtered: false, given_up: Vec::new(), problem: String::new() };
        if !config.drop_privileges {
            settled.problem = "nodewarden.dropPrivileges is false".into();
            return settled;
        }
        match settled.give_up() {
            Ok(given_up) if given_up.is_empty() => info!("system calls are refused that are not needed"),
            Ok(given_up) => {
                info!("given up after the start: {}", given_up.join(", "));
                settled.given_up = given_up;
            }
            Err(error) => {
                warn!("not everything was given up that is not needed: {error}");
                settled.problem = error.to_string();
            }
        }
        settled
    }

    fn give_up(&mut self) -> Result<Vec<String>, PrivilegesError> {
        let threads = Path::new(THREADS);
        let before = Held::of_threads(threads)?;
        // Each without the other if one of them fails.
        let filtered = refuse(self.mounts);
        self.filtered = filtered.is_ok();
        keep_only(kept(&self.uses), LONGEST)?;
        filtered?;
        let after = Held::of_threads(threads)?;
        Ok(before.permitted.without(after.permitted).names())
    }

    /// What the kernel says now.
    pub fn now(&self) -> model::Privileges {
        let (held, problem) = match Held::of_threads(Path::new(THREADS)) {
            Ok(held) => (held, self.problem.clone()),
            Err(error) => (Held::default(), error.to_string()),
        };
        // A filter of systemd or of a container's runtime is not this one.
        let refused = if self.filtered { refused(self.mounts).count() } else { 0 };
        model::Privileges {
            capabilities: explain(held.permitted, &self.uses),
            bounding: held.bounding.names(),
            given_up: self.given_up.clone(),
            no_new_privileges: held.no_new_privileges,
            refused_calls: u32::try_from(refused).unwrap_or(u32::MAX),
            problem,
        }
    }
}

/// What an agent with this configuration does after its start. `programs`: its kernel programs are loaded.
fn uses(config: &Config, programs: bool, kernel: &str) -> Vec<Use> {
    let (manages, augments) = (config.mode == Mode::Manage, config.mode == Mode::Augment);
    let before = |major, minor| version(kernel).is_none_or(|own| own < (major, minor));
    let augment = &config.augment;
    let all = [
        (Use::Observe, true),
        (Use::Programs, programs),
        (Use::ProgramsBeforeCapBpf, programs && before(5, 8)),
        (Use::ProgramsBeforeCgroupLinks, programs && before(5, 7)),
        (Use::SampledProgramStats, programs && config.program_stats == ProgramStats::Sampled),
        (Use::ExclusiveCpus, programs && manages),
        (Use::Kill, manages || augments && augment.eviction == Enforcement::Enforce),
        // What an earlier agent has left is put back before this.
        (Use::Protect, augments && augment.protection == Enforcement::Enforce),
        (Use::DevicePrograms, augments && augment.devices != Enforcement::Off),
        (Use::Pods, manages),
    ];
    all.into_iter().filter_map(|(own, does)| does.then_some(own)).collect()
}

/// Major and minor number of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_config::Overrides;

    fn config(change: impl FnOnce(&mut Config)) -> Config {
        let mut config = nodewarden_config::load(None, None, &Overrides::default()).unwrap();
        change(&mut config);
        config
    }

    #[test]
    fn a_release_is_read() {
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
        assert_eq!(version("5.4-rc1"), Some((5, 4)));
        assert_eq!(version("x"), None);
    }

    #[test]
    fn mode_observe_keeps_sys_admin_only_for_what_needs_it() {
        let has = |config: &Config, programs, kernel| kept(&uses(config, programs, kernel)).to_string();
        let off = config(|own| own.program_stats = ProgramStats::Off);
        let text = has(&off, true, "6.1.0");
        assert_eq!(text, "CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYS_NICE, CAP_SYS_RESOURCE, CAP_BPF");
        assert!(!has(&off, false, "6.1.0").contains("CAP_BPF"));
        for (with, kernel) in [(config(|_| ()), "6.1.0"), (off, "5.4.0")] {
            assert!(has(&with, true, kernel).contains("CAP_SYS_ADMIN"), "{kernel}");
        }
    }

    #[test]
    fn mode_augment_keeps_what_its_features_need() {
        let augment = |eviction, protection| {
            config(|own| {
                own.mode = Mode::Augment;
                own.program_stats = ProgramStats::Off;
                (own.augment.eviction, own.augment.protection) = (eviction, protection);
                own.augment.devices = Enforcement::Off;
            })
        };
        let kill = |own: &Config| kept(&uses(own, true, "6.1.0")).to_string();
        let quiet = kill(&augment(Enforcement::Audit, Enforcement::Audit));
        assert!(!quiet.contains("CAP_KILL") && !quiet.contains("CAP_DAC_OVERRIDE"), "{quiet}");
        let acting = kill(&augment(Enforcement::Enforce, Enforcement::Enforce));
        assert!(acting.contains("CAP_KILL") && acting.contains("CAP_DAC_OVERRIDE"), "{acting}");
        assert!(!acting.contains("CAP_SYS_ADMIN"), "{acting}");
        let devices = config(|own| {
            own.mode = Mode::Augment;
            own.program_stats = ProgramStats::Off;
            own.augment.devices = Enforcement::Audit;
        });
        assert!(kill(&devices).contains("CAP_SYS_ADMIN"), "{}", kill(&devices));
    }
}
