//! A test that cannot run on this machine.

/// Begins the line by which `cargo xtask test` counts a test as skipped and not as passed.
pub const SKIPPED: &str = "nodewarden-test: skipped: ";

/// Reports why the calling test cannot run here. The test returns right after it.
pub fn skip(reason: impl std::fmt::Display) {
    println!("{SKIPPED}{reason}");
}
