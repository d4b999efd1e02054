//! The source of the compiler's library, which `-Z build-std=core` compiles for the kernel's target.
//!
//! rustup has it as the component `rust-src`. Where rustup does not reach its server, Debian's package of the
//! very same compiler version has it too.

use std::path::{Path, PathBuf};

use super::toolchain::Toolchain;
use super::{StepError, rustup};
use xtask_common::debian::{Archive, Package, Suite};
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::process;
use xtask_common::progress::Progress;

/// Where Debian keeps newer compilers than its stable release has, the smallest package list first.
const SUITES: [Suite; 3] = [Suite::Named("trixie-backports"), Suite::Named("forky"), Suite::Named("sid")];

/// The folder in which the compiler looks for its source.
fn folder(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib/src/rust")
}

/// Whether cargo will find what it needs; false also for a link into a folder that is gone.
pub fn is_there(sysroot: &Path) -> bool {
    let library = folder(sysroot).join("library");
    library.join("Cargo.lock").exists() && library.join("core/src/lib.rs").exists()
}

/// Installs it the ordinary way, or else from Debian.
///
/// # Errors
/// When neither way works.
pub fn install(layout: &Layout, toolchain: &Toolchain, progress: &mut Progress) -> Result<(), StepError> {
    let rustup = match rustup::add(layout, &["rust-src"], progress) {
        Ok(()) if is_there(&toolchain.sysroot) => return Ok(()),
        Ok(()) => None,
        Err(error) => Some(error),
    };
    progress.begin("rustup does not have it; downloading Debian's package, about 20 seconds");
    match (from_debian(layout, toolchain, progress), rustup) {
        (Ok(()), _) if is_there(&toolchain.sysroot) => Ok(()),
        (Ok(()), _) => Err(StepError::StillMissing(folder(&toolchain.sysroot))),
        (Err(debian), Some(rustup)) => Err(StepError::RustSource { rustup, debian: Box::new(debian) }),
        (Err(debian), None) => Err(debian),
    }
}

fn from_debian(layout: &Layout, toolchain: &Toolchain, progress: &mut Progress) -> Result<(), StepError> {
    let archive = Archive::of_this_machine()?;
    let package = Package { name: "rust-src".to_owned(), version: Some(toolchain.release.clone()) };
    let unpacked = layout.tools().join("rust-src.partial");
    archive.unpack(layout, &package, &SUITES, &unpacked, progress)?;
    let source = unpacked.join("usr/src").join(format!("rustc-{}", toolchain.release)).join("library");
    put_in_place(layout, &source, &folder(&toolchain.sysroot), progress)?;
    Ok(files::remove(&unpacked)?)
}

/// Copies `library` into the compiler's folder `rust`: copied and not linked, since the target directory may
/// be deleted while the toolchain stays; under another name first, since `rust` must never hold half of it.
fn put_in_place(
    layout: &Layout,
    library: &Path,
    rust: &Path,
    progress: &mut Progress,
) -> Result<(), StepError> {
    let partial = rust.with_file_name("rust.partial");
    files::remove(&partial)?;
    files::create_folder(&partial)?;
    let mut copy = layout.command("cp");
    copy.arg("--recursive").arg("--dereference").arg(library).arg(&partial);
    process::follow(&mut copy, |line| progress.tick(line))?;
    // What is there is a dangling link or an incomplete library: `is_there` was asked before.
    files::remove(rust)?;
    Ok(files::rename(&partial, rust)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(at: &Path) {
        files::create_folder(&at.join("core/src")).unwrap();
        files::write(&at.join("core/src/lib.rs"), "").unwrap();
        files::write(&at.join("Cargo.lock"), "").unwrap();
    }

    fn put(temp: &Path, library: &Path, sysroot: &Path) {
        let layout = Layout { root: temp.into(), target: temp.join("target") };
        put_in_place(&layout, library, &folder(sysroot), &mut Progress::new(1, 1, "test")).unwrap();
    }

    #[test]
    fn a_dangling_link_is_repaired() {
        let temp = tempfile::tempdir().unwrap();
        let (from, sysroot) = (temp.path().join("from/library"), temp.path().join("sysroot"));
        library(&from);
        files::create_folder(folder(&sysroot).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(temp.path().join("gone"), folder(&sysroot)).unwrap();
        assert!(!is_there(&sysroot));
        put(temp.path(), &from, &sysroot);
        assert!(is_there(&sysroot));
    }

    #[test]
    fn an_interrupted_copy_is_not_taken_for_the_source() {
        let temp = tempfile::tempdir().unwrap();
        let (from, sysroot) = (temp.path().join("from/library"), temp.path().join("sysroot"));
        library(&from);
        library(&folder(&sysroot).with_file_name("rust.partial").join("library"));
        assert!(!is_there(&sysroot));
        put(temp.path(), &from, &sysroot);
        assert!(is_there(&sysroot));
        assert!(!folder(&sysroot).with_file_name("rust.partial").exists());
    }

    #[test]
    fn a_source_without_its_lock_file_is_not_there() {
        let temp = tempfile::tempdir().unwrap();
        library(&folder(temp.path()).join("library"));
        assert!(is_there(temp.path()));
        std::fs::remove_file(folder(temp.path()).join("library/Cargo.lock")).unwrap();
        assert!(!is_there(temp.path()));
    }
}
