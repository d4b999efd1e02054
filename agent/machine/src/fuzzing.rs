//! Entry points for the fuzz targets of `tests/fuzz`: parsers that are private otherwise. Only with the
//! feature `fuzzing`.

pub use crate::cgroup::fuzzing::{limits, memberships, usage};
pub use crate::ebpf::fuzzing::{btf, symbols};
