//! What the figures of a decision count. Pure.

use nodewarden_config::Signal;
use nodewarden_manifest::names::{self, CPU, MEMORY};

use super::format::{bytes, count};

/// Suffix of the signals for a pod's own disk limits, as the kubelet names them.
const OWN_LIMIT: &str = "fs.limit";

/// A signal or resource, read from its name in the kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure<'a> {
    /// A signal of the node.
    Signal(Signal),
    /// A limit of the pod's own for disks.
    OwnLimit,
    /// A resource that pods request.
    Resource(&'a str),
}

impl<'a> Measure<'a> {
    /// The one of this name.
    pub fn of(name: &'a str) -> Self {
        match Signal::parse(name) {
            Some(signal) => Self::Signal(signal),
            None if name.ends_with(OWN_LIMIT) => Self::OwnLimit,
            None => Self::Resource(name),
        }
    }

    /// Whether it is memory.
    pub fn is_memory(self) -> bool {
        match self {
            Self::Signal(signal) => {
                matches!(signal, Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable)
            }
            Self::OwnLimit => false,
            Self::Resource(name) => name == MEMORY,
        }
    }

    /// A figure in its unit: bytes, millicores, or a count.
    pub fn amount(self, n: u64) -> String {
        let is_bytes = match self {
            Self::Signal(signal) => signal.is_bytes(),
            Self::OwnLimit => true,
            Self::Resource(name) => names::is_bytes(name),
        };
        match self {
            _ if is_bytes => bytes(n),
            Self::Resource(CPU) if n.is_multiple_of(1000) => (n / 1000).to_string(),
            Self::Resource(CPU) => format!("{n}m"),
            _ => count(n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_each_kind_of_figure() {
        for (name, is_memory, amount) in [
            ("memory.available", true, "2.00Ki"),
            ("allocatableMemory.available", true, "2.00Ki"),
            ("nodefs.available", false, "2.00Ki"),
            ("imagefs.available", false, "2.00Ki"),
            ("containerfs.available", false, "2.00Ki"),
            ("nodefs.inodesFree", false, "2.05k"),
            ("imagefs.inodesFree", false, "2.05k"),
            ("pid.available", false, "2.05k"),
            ("emptydirfs.limit", false, "2.00Ki"),
            ("memory", true, "2.00Ki"),
            ("ephemeral-storage", false, "2.00Ki"),
            ("hugepages-2Mi", false, "2.00Ki"),
            ("cpu", false, "2048m"),
            ("example.com/gpu", false, "2.05k"),
        ] {
            let measure = Measure::of(name);
            assert_eq!((measure.is_memory(), measure.amount(2048).as_str()), (is_memory, amount), "{name}");
        }
        assert_eq!(Measure::of("cpu").amount(2000), "2");
    }
}
