//! Limits as properties of a unit (systemd.resource-control(5), org.freedesktop.systemd1(5)).

use zbus::Variant;

use super::super::{Bound, Limits, files};
use super::{SystemdError, Unit, cpus, settle};
use crate::cgroup::Version;

/// `CPUQuotaPeriodUSec` came with it.
const QUOTA_PERIOD_SINCE: u32 = 242;
/// `AllowedCPUs` came with it.
const ALLOWED_CPUS_SINCE: u32 = 244;
/// A `CPUWeight` of 0, which is `cpu.idle`, and `StartupAllowedCPUs` came with it.
const IDLE_SINCE: u32 = 252;
const STARTUP_ALLOWED_CPUS_SINCE: u32 = 252;

/// systemd's "no limit".
const INFINITY: u64 = u64::MAX;

/// Which properties this systemd has on these cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// Where the controllers are.
    pub cgroups: Version,
    /// systemd's own version: 252.
    pub systemd: u32,
}

/// One property, as `StartTransientUnit` and `SetUnitProperties` take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// systemd's name of it.
    pub name: &'static str,
    /// Its value in the type that systemd expects.
    pub value: Value,
}

/// A property's value, in the D-Bus types that occur.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Bool(bool),
    Number(u64),
    Text(String),
    Texts(Vec<String>),
    Bytes(Vec<u8>),
}

impl Property {
    /// What D-Bus is handed for it.
    pub fn to_bus(&self) -> (&'static str, Variant<'_>) {
        let value = match &self.value {
            Value::Bool(on) => (*on).into(),
            Value::Number(number) => (*number).into(),
            Value::Text(text) => text.as_str().into(),
            Value::Texts(texts) => texts.clone().into(),
            Value::Bytes(bytes) => bytes.clone().into(),
        };
        (self.name, value)
    }
}

/// What a slice is made with, whatever its limits: as the kubelet makes it, and what keeps the controllers
/// on.
///
/// `cpus` are all that this machine could have (`/sys/devices/system/cpu/possible`). A slice of which systemd
/// thinks that nothing below needs the cpuset controller loses its files when its last pod goes. A value for
/// the time of booting and shutting down makes it need the controller for ever and, being every CPU,
/// restricts nothing.
///
/// The limits are not among them: of CPU lists in the unit's own file and in the drop-in of a later change,
/// systemd 252 takes both together.
pub fn of_slice(unit: &Unit, cpus: &[u8], dialect: Dialect) -> Vec<Property> {
    let mut all = vec![
        Property { name: "Description", value: Value::Text(format!("nodewarden cgroup {}", unit.name())) },
        on("CPUAccounting"),
        on("MemoryAccounting"),
        on("TasksAccounting"),
        on(match dialect.cgroups {
            Version::V1 => "BlockIOAccounting",
            Version::V2 => "IOAccounting",
        }),
        Property { name: "DefaultDependencies", value: Value::Bool(false) },
    ];
    if let Some(slice) = unit.slice() {
        all.push(Property { name: "Wants", value: Value::Texts(vec![slice.into()]) });
    }
    let keeps = dialect.cgroups == Version::V2 && dialect.systemd >= STARTUP_ALLOWED_CPUS_SINCE;
    if keeps && !cpus.is_empty() {
        all.push(Property { name: "StartupAllowedCPUs", value: Value::Bytes(cpus.to_owned()) });
    }
    all
}

/// Those of [`of_slice`] that a slice of someone else's making can still be given.
pub fn adopted(made_with: Vec<Property>) -> impl Iterator<Item = Property> {
    made_with
        .into_iter()
        .filter(|property| !matches!(property.name, "Description" | "DefaultDependencies" | "Wants"))
}

/// Those of the limits that systemd has properties for; all others are for the files alone.
///
/// # Errors
/// When the list of CPUs is none.
pub fn properties(limits: &Limits, dialect: Dialect) -> Result<Vec<Property>, SystemdError> {
    let mut all = Vec::new();
    match dialect.cgroups {
        Version::V1 => {
            all.extend(limits.cpu.map(|share| number("CPUShares", files::shares(share))));
            all.extend(limits.memory_max.map(|max| number("MemoryLimit", at_least_one(max))));
        }
        Version::V2 => {
            all.extend(weight(limits, dialect));
            all.extend(limits.memory_max.map(|max| number("MemoryMax", at_least_one(max))));
            all.extend(limits.memory_min.map(|min| number("MemoryMin", min)));
            all.extend(limits.memory_low.map(|low| number("MemoryLow", low)));
            all.extend(limits.memory_high.map(|high| number("MemoryHigh", at_least_one(high))));
            all.extend(limits.swap_max.map(|max| number("MemorySwapMax", infinite(max))));
            if let Some(list) = &limits.cpuset_cpus
                && dialect.systemd >= ALLOWED_CPUS_SINCE
            {
                all.push(Property { name: "AllowedCPUs", value: Value::Bytes(cpus::mask(list)?) });
            }
        }
    }
    if let Some(quota) = limits.cpu_quota {
        if dialect.systemd >= QUOTA_PERIOD_SINCE {
            all.push(number("CPUQuotaPeriodUSec", quota.period_us));
        }
        all.push(number(
            "CPUQuotaPerSecUSec",
            match quota.quota_us {
                Bound::At(quota_us) => settle::quota_per_second(quota_us, quota.period_us),
                Bound::Max => INFINITY,
            },
        ));
    }
    all.extend(limits.pids_max.map(|max| number("TasksMax", infinite(settle::tasks(max)))));
    Ok(all)
}

fn on(name: &'static str) -> Property {
    Property { name, value: Value::Bool(true) }
}

fn number(name: &'static str, number: u64) -> Property {
    Property { name, value: Value::Number(number) }
}

fn infinite(bound: Bound) -> u64 {
    match bound {
        Bound::At(number) => number,
        Bound::Max => INFINITY,
    }
}

/// An upper limit of memory can't be nought. One byte is: the kernel counts whole pages.
fn at_least_one(bound: Bound) -> u64 {
    infinite(bound).max(1)
}

/// `CPUWeight`, which is also `cpu.idle`.
fn weight(limits: &Limits, dialect: Dialect) -> Option<Property> {
    if limits.cpu_idle == Some(true) && dialect.systemd >= IDLE_SINCE {
        return Some(number("CPUWeight", 0));
    }
    limits.cpu.map(|share| number("CPUWeight", files::weight(share)))
}

#[cfg(test)]
mod tests;
