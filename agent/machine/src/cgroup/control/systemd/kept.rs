//! One memory bound of a unit that another program owns, as systemd keeps it.

use super::bus::talk;
use super::properties::{Property, Value};
use super::{SystemdError, Unit};

/// systemd's "no limit".
const INFINITY: u64 = u64::MAX;

/// A bound of memory that is a file of the cgroup and a property of its unit (systemd.resource-control(5)),
/// on cgroup v2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryBound {
    /// `memory.high`, `MemoryHigh=`.
    High,
    /// `memory.min`, `MemoryMin=`.
    Min,
}

impl MemoryBound {
    /// The bound of this file; `None` if systemd has no property for it, or the kubelet sets that one.
    pub fn of_file(file: &str) -> Option<Self> {
        match file {
            "memory.high" => Some(Self::High),
            "memory.min" => Some(Self::Min),
            _ => None,
        }
    }

    fn property(self, bytes: Option<u64>) -> Property {
        let name = match self {
            Self::High => "MemoryHigh",
            Self::Min => "MemoryMin",
        };
        Property { name, value: Value::Number(bytes.unwrap_or(INFINITY)) }
    }
}

/// Has systemd keep a bound of the unit whose cgroup is `path`, until the next boot: whenever it writes the
/// unit's settings again, it writes this one. `bytes`: `None` for no bound. False if no unit of systemd has
/// this cgroup.
///
/// Must not be called from async code: it blocks on a runtime of its own, for at most half a minute.
///
/// # Errors
/// systemd cannot be reached or refuses it.
pub fn keep_memory_bound(path: &str, bound: MemoryBound, bytes: Option<u64>) -> Result<bool, SystemdError> {
    let Ok(unit) = Unit::of_path(path) else { return Ok(false) };
    talk(async |bus| {
        // A cgroup that a container makes may be called as a unit of the machine is.
        if bus.control_group(&unit).await? != path {
            return Ok(false);
        }
        bus.set(&unit, &[bound.property(bytes)]).await.map(|()| true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_their_properties() {
        assert_eq!(MemoryBound::of_file("memory.max"), None, "the kubelet's");
        let high = MemoryBound::of_file("memory.high").unwrap();
        assert_eq!(high.property(Some(7)), Property { name: "MemoryHigh", value: Value::Number(7) });
        assert_eq!(high.property(None).value, Value::Number(u64::MAX));
        assert_eq!(MemoryBound::of_file("memory.min").unwrap().property(Some(0)).name, "MemoryMin");
    }

    #[test]
    fn a_cgroup_without_a_units_name_is_none_of_systemds() {
        assert!(!keep_memory_bound("/kubepods/podx", MemoryBound::High, None).unwrap());
    }
}
