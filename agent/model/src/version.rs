//! Which version of nodewarden runs.

use std::sync::OnceLock;

static VERSION: OnceLock<&'static str> = OnceLock::new();

/// Sets what [`version`] returns. The binary calls it first, with git's description of its source; a second
/// call changes nothing. Crates below the binary do not contain git's description: each commit would rebuild
/// them.
pub fn set_version(version: &'static str) {
    let _ = VERSION.set(version);
}

/// The version of the binary; the package's version in tests, which set none.
pub fn version() -> &'static str {
    VERSION.get().copied().unwrap_or(env!("CARGO_PKG_VERSION"))
}
