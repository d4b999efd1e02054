//! Capabilities by name (capabilities(7)), and sets of them.

use std::fmt;

use strum::IntoEnumIterator;

/// A capability. The order is the kernel's (include/uapi/linux/capability.h).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    strum::EnumIter,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[expect(missing_docs, reason = "capabilities(7) says what each allows")]
pub enum Capability {
    CapChown,
    CapDacOverride,
    CapDacReadSearch,
    CapFowner,
    CapFsetid,
    CapKill,
    CapSetgid,
    CapSetuid,
    CapSetpcap,
    CapLinuxImmutable,
    CapNetBindService,
    CapNetBroadcast,
    CapNetAdmin,
    CapNetRaw,
    CapIpcLock,
    CapIpcOwner,
    CapSysModule,
    CapSysRawio,
    CapSysChroot,
    CapSysPtrace,
    CapSysPacct,
    CapSysAdmin,
    CapSysBoot,
    CapSysNice,
    CapSysResource,
    CapSysTime,
    CapSysTtyConfig,
    CapMknod,
    CapLease,
    CapAuditWrite,
    CapAuditControl,
    CapSetfcap,
    CapMacOverride,
    CapMacAdmin,
    CapSyslog,
    CapWakeAlarm,
    CapBlockSuspend,
    CapAuditRead,
    CapPerfmon,
    CapBpf,
    CapCheckpointRestore,
}

impl Capability {
    /// Its name: `CAP_SYS_ADMIN`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A set of capabilities as the kernel has it: one bit each. It may have some that this program has no name
/// for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CapabilitySet(pub u64);

impl CapabilitySet {
    /// Reads the number of a line of `/proc/PID/status`, which is hexadecimal.
    pub fn from_hex(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }

    /// Whether it has this capability.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & bit(capability) != 0
    }

    /// What it has in addition to `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What is in one of them.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names in the order of their numbers; `CAP_41` where there is no name.
    pub fn names(self) -> Vec<String> {
        let named = |number: u32| Capability::iter().find(|own| *own as u32 == number);
        let name =
            |number| named(number).map_or_else(|| format!("CAP_{number}"), |own| own.name().to_owned());
        (0..u64::BITS).filter(|number| self.0 >> number & 1 == 1).map(name).collect()
    }
}

impl FromIterator<Capability> for CapabilitySet {
    fn from_iter<I: IntoIterator<Item = Capability>>(all: I) -> Self {
        Self(all.into_iter().fold(0, |set, own| set | bit(own)))
    }
}

impl fmt::Display for CapabilitySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(", "))
    }
}

fn bit(capability: Capability) -> u64 {
    1 << capability as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn capabilities_have_the_kernels_numbers_and_names() {
        // include/uapi/linux/capability.h
        for (capability, number, name) in [
            (Capability::CapChown, 0, "CAP_CHOWN"),
            (Capability::CapDacReadSearch, 2, "CAP_DAC_READ_SEARCH"),
            (Capability::CapNetAdmin, 12, "CAP_NET_ADMIN"),
            (Capability::CapSysAdmin, 21, "CAP_SYS_ADMIN"),
            (Capability::CapSyslog, 34, "CAP_SYSLOG"),
            (Capability::CapPerfmon, 38, "CAP_PERFMON"),
            (Capability::CapBpf, 39, "CAP_BPF"),
            (Capability::CapCheckpointRestore, 40, "CAP_CHECKPOINT_RESTORE"),
        ] {
            assert_eq!((capability as u32, capability.name()), (number, name));
        }
    }

    #[test]
    fn what_has_no_name_is_shown_by_its_number() {
        assert_eq!(
            CapabilitySet::from_hex("0000020000200001").unwrap().to_string(),
            "CAP_CHOWN, CAP_SYS_ADMIN, CAP_41"
        );
        assert_eq!(CapabilitySet::from_hex("x"), None);
    }

    proptest! {
        #[test]
        fn a_set_is_what_is_left_and_what_is_taken_out(all: u64, kept: u64) {
            let (all, kept) = (CapabilitySet(all), CapabilitySet(kept));
            let dropped = all.without(kept);
            prop_assert!(Capability::iter().all(|own| dropped.has(own) == (all.has(own) && !kept.has(own))));
            prop_assert_eq!(dropped.or(all), all);
            prop_assert_eq!(all.names().len() as u32, all.0.count_ones());
        }
    }
}
