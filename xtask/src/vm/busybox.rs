//! The shell of guests without a Debian root: this machine's busybox, or Debian's.

use std::env;
use std::path::{Path, PathBuf};

use super::assets;
use crate::debian::{Archive, DebianError, Package, Suite};
use crate::layout::Layout;
use crate::progress::Progress;

/// The package, and the program in it.
const PACKAGE: &str = "busybox-static";
/// Debian 12 has it in /bin, later ones in /usr/bin.
const PLACES: [&str; 2] = ["usr/bin/busybox", "bin/busybox"];

/// Finds or downloads it.
///
/// # Errors
/// When this machine has none and its Debian mirror can't be reached.
pub fn busybox(layout: &Layout) -> Result<PathBuf, DebianError> {
    let folder = assets::folder(layout).join("busybox");
    if let Some(program) = unpacked(&folder).or_else(installed) {
        return Ok(program);
    }
    let mut progress = Progress::labelled(format!("vm: {PACKAGE}"));
    progress.begin("downloading Debian's package, about 10 seconds");
    let package = Package { name: PACKAGE.to_owned(), version: None };
    let suites = [Suite::Own];
    let archive = Archive::of_this_machine()?;
    archive.unpack(layout, &package, &suites, &folder, &mut progress)?;
    progress.end_timed();
    unpacked(&folder).ok_or_else(|| archive.no_package(PACKAGE, None, &suites))
}

fn unpacked(folder: &Path) -> Option<PathBuf> {
    PLACES.iter().map(|place| folder.join(place)).find(|program| program.is_file())
}

fn installed() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join("busybox")).find(|program| program.is_file())
}
