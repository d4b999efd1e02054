//! The ordinary way to more of the compiler: `rustup component add`.

use xtask_common::layout::Layout;
use xtask_common::process::{self, CommandError};
use xtask_common::progress::Progress;

/// Adds `components` to the toolchain in use.
///
/// # Errors
/// When there is no rustup, or it does not reach its server.
pub fn add(layout: &Layout, components: &[&str], progress: &mut Progress) -> Result<(), CommandError> {
    let mut command = layout.command("rustup");
    // A backtrace would push the cause out of the error's last lines.
    command.args(["component", "add"]).args(components).env("RUST_BACKTRACE", "0");
    process::follow(&mut command, |line| progress.tick(line))
}
