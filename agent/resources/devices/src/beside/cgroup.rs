//! Whether a container's cgroup lets it open a device: by `devices.list` of the v1 controller, and by the
//! device programs of the unified hierarchy, as far as there are such hierarchies. Reads only.

use std::io;
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nodewarden_ebpf_abi::{DEVICE_BLOCK, DEVICE_CHAR};
use nodewarden_machine::cgroup::{Layout, join};
use nodewarden_machine::ebpf::DeviceQuestion;
use nodewarden_machine::ebpf::device_programs::{DeviceProgram, DeviceProgramsError, effective};
use nodewarden_model::HostDeviceKind;

use super::loss::Access as Verdict;
use super::node::Numbers;
use crate::enforce::{Allowed, List};
use crate::policy::Access;

/// Why it is not known what a cgroup allows.
#[derive(Debug, thiserror::Error)]
pub enum RulesUnknown {
    #[error("read {path}: {source}")]
    List { path: std::path::PathBuf, source: io::Error },
    #[error(transparent)]
    Programs(#[from] DeviceProgramsError),
}

impl RulesUnknown {
    /// Whether the cgroup is no longer there.
    pub fn is_gone(&self) -> bool {
        let (Self::List { source, .. }
        | Self::Programs(
            DeviceProgramsError::Open { source, .. } | DeviceProgramsError::Call { source, .. },
        )) = self;
        matches!(source.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
    }
}

/// The rules that apply to a cgroup.
#[derive(Debug)]
pub struct Rules {
    list: Option<List>,
    programs: Vec<DeviceProgram>,
    /// The time since the boot when they were read.
    now: Duration,
}

impl Rules {
    /// Reads the rules of a cgroup, whose path is the same in all hierarchies.
    ///
    /// # Errors
    /// The cgroup is gone, or the kernel refuses.
    pub fn read(layout: &Layout, cgroup: &str) -> Result<Self, RulesUnknown> {
        let list = layout.devices().map(|mount| list(&join(mount, cgroup))).transpose()?;
        let unified = layout.unified().map(|unified| join(&unified.mount, cgroup));
        // In a hybrid layout the container need not be in the unified hierarchy.
        let unified = unified.filter(|directory| list.is_none() || directory.exists());
        let programs = unified.map(|directory| effective(&directory)).transpose()?.unwrap_or_default();
        Ok(Self { list, programs, now: since_boot() })
    }

    /// Whether all of them let a process open the device so.
    pub fn verdict(&self, device: Numbers, access: Access) -> Verdict {
        let access = access & Access::READ_WRITE;
        if let Some(list) = &self.list
            && !allows(list, device, access)
        {
            return Verdict::Lost("devices.list of its cgroup does not allow it".to_owned());
        }
        let question = question(device, access);
        let mut is_unknown = false;
        for program in &self.programs {
            match program.allows(question) {
                Some(true) => {}
                Some(false) => return Verdict::Lost(refusal(program, self.now)),
                None => is_unknown = true,
            }
        }
        if is_unknown { Verdict::Unknown } else { Verdict::Open }
    }
}

fn list(directory: &Path) -> Result<List, RulesUnknown> {
    let path = directory.join("devices.list");
    let text = std::fs::read_to_string(&path).map_err(|source| RulesUnknown::List { path, source })?;
    Ok(List::parse(&text))
}

fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

fn question((kind, major, minor): Numbers, access: Access) -> DeviceQuestion {
    let kind = match kind {
        HostDeviceKind::Block => DEVICE_BLOCK,
        HostDeviceKind::Char => DEVICE_CHAR,
    };
    DeviceQuestion { kind, major, minor, access: access.bits() }
}

/// Whether the v1 controller allows all of the accesses: each entry allows some, of one device or of several.
fn allows(list: &List, (kind, major, minor): Numbers, access: Access) -> bool {
    let List::Only(allowed) = list else { return true };
    let is_it = |number: Option<u32>, own: u32| number.is_none_or(|number| number == own);
    let of_it = |allowed: &Allowed| {
        let entries = allowed.iter().filter(|(pattern, _)| {
            pattern.kind == kind && is_it(pattern.major, major) && is_it(pattern.minor, minor)
        });
        entries.fold(Access::NONE, |all, (_, access)| all | *access)
    };
    (access - of_it(allowed)).is_empty()
}

/// The name of the programs that systemd makes of `DeviceAllow=`.
const OF_SYSTEMD: &str = "sd_devices";

fn refusal(program: &DeviceProgram, now: Duration) -> String {
    let age = now.saturating_sub(program.loaded).as_secs();
    let (id, name) = (program.id, program.name.as_str());
    match name {
        OF_SYSTEMD => format!(
            "systemd's device rules of its cgroup refuse it (program {id}, loaded {age} s ago): a daemon-reload sets a \
             unit's own rules again, without what was added behind its back"
        ),
        "" => format!("the device rules of its cgroup refuse it (program {id}, loaded {age} s ago)"),
        _ => format!("the device rules of its cgroup refuse it (program {id} {name:?}, loaded {age} s ago)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Numbers = (HostDeviceKind::Char, 240, 1);

    #[test]
    fn entries_of_a_list_add_up() {
        for (text, access, expected) in [
            ("a *:* rwm", Access::READ_WRITE, true),
            ("c 240:1 rw", Access::READ_WRITE, true),
            ("c 240:1 r", Access::READ_WRITE, false),
            ("c 240:1 r", Access::READ, true),
            ("c 240:1 r\nc 240:* w", Access::READ_WRITE, true),
            ("c *:* m\nc 240:2 rw", Access::READ, false),
            ("b 240:1 rw", Access::READ, false),
            ("", Access::READ, false),
        ] {
            assert_eq!(allows(&List::parse(text), X, access), expected, "{text:?}");
            let rules = Rules { list: Some(List::parse(text)), programs: Vec::new(), now: Duration::ZERO };
            assert_eq!(
                matches!(rules.verdict(X, access | Access::MKNOD), Verdict::Open),
                expected,
                "{text:?}"
            );
        }
    }

    #[test]
    fn rules_of_this_machine_are_read() {
        let layout = match Layout::detect() {
            Ok(layout) => layout,
            Err(error) => return nodewarden_testing::skip(error),
        };
        match Rules::read(&layout, "/no such cgroup") {
            Err(error) => assert!(error.is_gone(), "{error}"),
            Ok(rules) => assert!(layout.devices().is_none() && layout.unified().is_none(), "{rules:?}"),
        }
    }
}
