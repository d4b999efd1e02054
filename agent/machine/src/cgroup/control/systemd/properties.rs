//! Limits as properties of a unit (systemd.resource-control(5), org.freedesktop.systemd1(5)).

use zbus::Variant;

use super::super::{Bound, Limits, files};
use super::{SystemdError, Unit, cpus, settle};
use crate::cgroup::Version;

/// First version with `CPUQuotaPeriodUSec`.
const QUOTA_PERIOD_SINCE: u32 = 242;
/// First version with `AllowedCPUs`.
const ALLOWED_CPUS_SINCE: u32 = 244;
/// First version with a `CPUWeight` of 0, which is `cpu.idle`, and with `StartupAllowedCPUs`.
const IDLE_SINCE: u32 = 252;
const STARTUP_ALLOWED_CPUS_SINCE: u32 = 252;

/// systemd's "no limit".
const INFINITY: u64 = u64::MAX;

/// The version of systemd and of cgroups, which determine the properties that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// The version of the hierarchies with the controllers.
    pub cgroups: Version,
    /// systemd's own version: 252.
    pub systemd: u32,
}

/// One property, as `StartTransientUnit` and `SetUnitProperties` take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Its name in systemd.
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
    /// The value in zbus's type.
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

/// The properties with which every slice is created: those of the kubelet, and those that keep the
/// controllers enabled.
///
/// `cpus` are all that this machine can have (`/sys/devices/system/cpu/possible`). systemd disables the
/// cpuset controller in a slice when nothing below seems to need it, for example when the last pod is
/// removed. `StartupAllowedCPUs`, which applies while booting and shutting down, makes the slice need the
/// controller for ever and, since it contains every CPU, restricts nothing.
///
/// The limits are not among them: systemd 252 would combine a CPU list in the unit's own file with the one in
/// the drop-in of a later change.
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

/// Those of [`of_slice`] that can also be set on a slice that another program has created.
pub fn adopted(made_with: Vec<Property>) -> impl Iterator<Item = Property> {
    made_with
        .into_iter()
        .filter(|property| !matches!(property.name, "Description" | "DefaultDependencies" | "Wants"))
}

/// The properties for those limits that systemd knows; the others are only written to the files.
///
/// # Errors
/// The list of CPUs is not valid.
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

/// systemd does not accept 0 as an upper limit of memory. One byte has the same effect: the kernel counts
/// whole pages.
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
