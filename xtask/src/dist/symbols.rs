//! Splits a program from its debug symbols, which stay apart until someone needs them.

use std::path::Path;

use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::process;

use super::DistRunError;

/// The name of the file with the symbols, which the program refers to.
pub const SYMBOLS: &str = "nodewarden.debug";

/// The stripped program, and its symbols.
///
/// # Errors
/// When objcopy or strip fails.
pub fn split(layout: &Layout, binary: &[u8], scratch: &Path) -> Result<(Vec<u8>, Vec<u8>), DistRunError> {
    let (program, symbols) = (scratch.join("nodewarden"), scratch.join(SYMBOLS));
    files::write(&program, binary)?;
    let objcopy = |arguments: &[&str]| {
        // The link has only the last part of the name, and a checksum.
        let mut command = layout.command("objcopy");
        command.args(arguments).current_dir(scratch);
        process::capture(&mut command)
    };
    objcopy(&["--only-keep-debug", "--compress-debug-sections", "nodewarden", SYMBOLS])?;
    objcopy(&["--strip-all", "nodewarden"])?;
    objcopy(&[&format!("--add-gnu-debuglink={SYMBOLS}"), "nodewarden"])?;
    Ok((files::read(&program)?, files::read(&symbols)?))
}
