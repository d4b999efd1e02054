//! Entry points for the fuzz targets of `tests/fuzz`. Only with the feature `fuzzing`.

use jiff::Timestamp;
use nodewarden_ebpf_abi::SPACES;
use nodewarden_machine::ebpf::Moment;

use crate::registry::Registry;

/// A registry that knows the root of every hierarchy, whose kernel id is 1.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    for space in 0..SPACES {
        registry.add(space, 1, 0, "/".into(), Moment { wall: Timestamp::UNIX_EPOCH, monotonic_ns: 0 });
    }
    registry
}
