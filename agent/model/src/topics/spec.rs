//! What a topic is made of: what it needs of the kernel, its programs and tables, and how its counters are
//! shown. Plain values; `machine::ebpf` loads and attaches by them.

use std::fmt;

use nodewarden_ebpf_abi::Space;
use nodewarden_proto::nodewarden::v1 as proto;

use super::KernelCounters;
use crate::family::CgroupFamily;

/// One topic.
pub struct TopicSpec {
    /// The name in status, metrics and configuration.
    pub name: &'static str,
    /// The hierarchy whose cgroups it is about; `None` for all of them.
    pub space: Option<Space>,
    /// What the kernel must have: without one of them the topic is off.
    pub needs: &'static [Need],
    /// What the kernel may have: without it only a substitute of a program cannot be used.
    pub wants: &'static [Need],
    /// Its programs, in the order in which they are attached.
    pub programs: &'static [Program],
    /// Its tables other than arrays of cells, with how many entries each gets.
    pub tables: &'static [(&'static str, u32)],
    /// Its metrics of each cgroup, in the order in which they are written.
    pub families: &'static [CgroupFamily],
    /// Fills in its counters where they are sent over gRPC.
    pub put: fn(&KernelCounters, &mut proto::Cgroup),
    /// How many events it has counted: to show what fell to cgroups without counters of their own.
    pub events: fn(&KernelCounters) -> u64,
    /// Its programs are attached by a caller of their own and only where the configuration wants it.
    pub on_request: bool,
}

impl TopicSpec {
    /// A topic without anything, to complete others.
    pub(super) const EMPTY: Self = Self {
        name: "",
        space: None,
        needs: &[],
        wants: &[],
        programs: &[],
        tables: &[],
        families: &[],
        put: |_, _| {},
        events: |_| 0,
        on_request: false,
    };
}

/// Something that the kernel's BTF must show, and the programs' global that gets its value.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// The offset of the first of `paths` (`struct.member.member…`) that exists: a field may have been
    /// renamed.
    Field { global: &'static str, paths: &'static [&'static str] },
    /// The size of a structure.
    Size { global: &'static str, structure: &'static str },
    /// The offset of a process's first counter of resident pages, and the distance to the next.
    RssCounters { offset: &'static str, stride: &'static str },
    /// The index of a controller in `css_set.subsys`, by its kernel name.
    Controller { global: &'static str, name: &'static str },
    /// A tracepoint whose argument (counted from 1) is a pointer; `otherwise` says what is missing.
    PointerArgument { tracepoint: &'static str, argument: usize, otherwise: &'static str },
}

/// A field that never had another name.
pub(super) const fn field(global: &'static str, paths: &'static [&'static str]) -> Need {
    Need::Field { global, paths }
}

/// Where a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// A BTF tracepoint (kernel 5.5).
    Tracepoint(&'static str),
    /// Packets of the sockets below the unified root (kernel 4.10; links since 5.7).
    Ingress,
    Egress,
    /// Opens of device nodes by processes below a cgroup (kernel 4.15; links since 5.7).
    Device,
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tracepoint(name) => write!(f, "tp_btf/{name}"),
            Self::Ingress => f.write_str("cgroup_skb/ingress"),
            Self::Egress => f.write_str("cgroup_skb/egress"),
            Self::Device => f.write_str("cgroup_device"),
        }
    }
}

/// One program of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in the object.
    pub name: &'static str,
    pub hook: Hook,
    /// The topic works without it.
    pub optional: bool,
}

impl Program {
    /// A program that its topic cannot do without.
    pub const fn new(name: &'static str, hook: Hook) -> Self {
        Self { name, hook, optional: false }
    }

    /// The same at a tracepoint.
    pub const fn at(name: &'static str, tracepoint: &'static str) -> Self {
        Self::new(name, Hook::Tracepoint(tracepoint))
    }
}
