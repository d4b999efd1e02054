//! The constant description of a topic: what it needs of the kernel, its programs and tables, and how its
//! counters are shown. Plain values, by which `machine::ebpf` loads and attaches the programs.

use std::fmt;

use nodewarden_ebpf_abi::Space;
use nodewarden_proto::nodewarden::v1 as proto;

use super::KernelCounters;
use super::samples::CgroupFamily;

/// The constant description of one topic.
pub struct TopicSpec {
    /// The name in status, metrics and configuration.
    pub name: &'static str,
    /// The hierarchy whose cgroups it counts; `None` for all of them.
    pub space: Option<Space>,
    /// What the kernel must have; if any of it is missing, the topic is off.
    pub needs: &'static [Need],
    /// What the kernel may have; if any of it is missing, only a substitute or a shorter way of a program
    /// cannot be used.
    pub wants: &'static [Need],
    /// Its programs, in the order in which they are attached.
    pub programs: &'static [Program],
    /// Its tables other than arrays of cells, with the number of entries of each.
    pub tables: &'static [(&'static str, u32)],
    /// Its metrics of each cgroup, in the order in which they are written.
    pub families: &'static [CgroupFamily],
    /// Sets its fields of the gRPC message.
    pub put: fn(&KernelCounters, &mut proto::Cgroup),
    /// How many events it has counted, to show how many happened in cgroups without counters of their own.
    pub events: fn(&KernelCounters) -> u64,
    /// Whether its programs are attached only if the configuration asks for it.
    pub on_request: bool,
}

impl TopicSpec {
    /// A topic without anything, as a base for others.
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

/// Something that the kernel's BTF must contain, and the global variable of the programs that receives its
/// value.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// The offset of the first of several paths that exists: a field may have been renamed.
    Field {
        /// The variable that receives the offset in bytes.
        global: &'static str,
        /// `struct.member.member…`, the current name first.
        paths: &'static [&'static str],
    },
    /// The size of a structure.
    Size {
        /// The variable that receives the size in bytes.
        global: &'static str,
        /// The structure's name.
        structure: &'static str,
    },
    /// The offset of a process's first counter of resident pages, and the distance to the next.
    RssCounters {
        /// The variable that receives the offset.
        offset: &'static str,
        /// The variable that receives the distance.
        stride: &'static str,
    },
    /// The index of a controller in `css_set.subsys`, by its kernel name.
    Controller {
        /// The variable that receives the index.
        global: &'static str,
        /// The kernel's name: `memory`.
        name: &'static str,
    },
    /// A tracepoint with an argument that is a pointer. No variable receives anything.
    PointerArgument {
        /// The tracepoint's name, without its group.
        tracepoint: &'static str,
        /// The argument's number, counted from 1.
        argument: usize,
        /// What is missing if it is not a pointer, for the topic's reason in the status.
        otherwise: &'static str,
    },
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
    /// The begin of a function, by a kprobe (`CONFIG_KPROBES`).
    Function(&'static str),
    /// Packets that sockets below the unified root receive (kernel 4.10; links since 5.7).
    Ingress,
    /// Packets that sockets below the unified root send.
    Egress,
    /// Opens of device nodes by processes below a cgroup (kernel 4.15; links since 5.7).
    Device,
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tracepoint(name) => write!(f, "tp_btf/{name}"),
            Self::Function(name) => write!(f, "kprobe/{name}"),
            Self::Ingress => f.write_str("cgroup_skb/ingress"),
            Self::Egress => f.write_str("cgroup_skb/egress"),
            Self::Device => f.write_str("cgroup_device"),
        }
    }
}

/// An argument of a tracepoint, as a program reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// It is not read.
    Any,
    /// A pointer to the structure of this name.
    Pointer(&'static str),
    /// A number: an integer, a bool or an enumerator.
    Number,
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Pointer(structure) => f.write_str(structure),
            Self::Number => f.write_str("number"),
        }
    }
}

/// One program of the eBPF object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in the object.
    pub name: &'static str,
    /// Where it is attached.
    pub hook: Hook,
    /// Whether the topic works without it.
    pub optional: bool,
    /// The first arguments of its tracepoint, up to the last one that it reads. It is attached only where the
    /// kernel's BTF shows the same.
    pub reads: &'static [Argument],
    /// The program to attach instead where the tracepoint has other arguments.
    pub otherwise: Option<&'static Program>,
}

impl Program {
    /// A program that its topic cannot do without.
    pub const fn new(name: &'static str, hook: Hook) -> Self {
        Self { name, hook, optional: false, reads: &[], otherwise: None }
    }

    /// The same, attached at a tracepoint.
    pub const fn at(name: &'static str, tracepoint: &'static str) -> Self {
        Self::new(name, Hook::Tracepoint(tracepoint))
    }

    /// The same program, which reads these arguments of its tracepoint.
    pub const fn reading(self, reads: &'static [Argument]) -> Self {
        Self { reads, ..self }
    }

    /// The same program, with another one for kernels whose tracepoint has other arguments.
    pub const fn or(self, otherwise: &'static Self) -> Self {
        Self { otherwise: Some(otherwise), ..self }
    }

    /// This program and those to attach instead, in the order in which they are tried.
    pub fn forms(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |program| program.otherwise)
    }
}
