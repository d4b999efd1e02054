//! The sources, the Go compiler, etcd and kubectl, from Debian's release that has the source package.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{StepError, VERSION, partial, repair};
use xtask_common::debian::{Apt, Archive, DebianError, Package, Suite};
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::process;
use xtask_common::progress::Progress;

/// The release with the source package, the compiler that builds it, etcd and kubectl. Fixed, so that every
/// machine builds the same.
const SUITES: [Suite; 1] = [Suite::Named("bookworm")];
const SOURCE: &str = "kubernetes";
/// Debian's name of [`VERSION`] before the revision.
const DEBIAN_VERSION: &str = "1.20.5+really1.20.2";
/// The compiler and its library. Newer ones refuse this tree.
const COMPILER: [&str; 2] = ["golang-1.19-go", "golang-1.19-src"];

/// What is unpacked.
#[derive(Debug)]
pub struct Source {
    /// Kubernetes' source tree.
    pub tree: PathBuf,
    /// `GOROOT`.
    pub go: PathBuf,
}

impl Source {
    fn at(layout: &Layout) -> Self {
        let folder = layout.kubernetes();
        Self { tree: folder.join("source"), go: folder.join("compiler/usr/lib/go-1.19") }
    }

    /// Downloads and unpacks what is missing.
    ///
    /// # Errors
    /// When the mirror cannot be reached or has another version, or something cannot be unpacked.
    pub fn ensure(layout: &Layout, progress: &mut Progress) -> Result<Self, StepError> {
        let this = Self::at(layout);
        if !this.go.exists() || !this.tree.exists() {
            progress.begin("downloading Debian's source package and compiler, about 20 seconds");
            let archive = Archive::of_this_machine()?;
            let apt = Apt::at(layout, layout.kubernetes().join("apt"))?;
            apt.update(&archive.source_code_lines(&SUITES), progress)?;
            if !this.go.exists() {
                compiler(layout, &apt, progress)?;
            }
            if !this.tree.exists() {
                let description = apt.download_source(SOURCE, progress)?;
                right_version(&description)?;
                let unpacked = partial(&this.tree);
                files::remove(&unpacked)?;
                let mut dpkg = layout.command("dpkg-source");
                dpkg.args(["--no-check", "-x"]).arg(&description).arg(&unpacked);
                process::follow(&mut dpkg, |line| progress.tick(line))?;
                repair::tree(&unpacked)?;
                files::rename(&unpacked, &this.tree)?;
            }
        }
        Ok(this)
    }

    /// Removes sources, compiler and what was compiled but the programs.
    ///
    /// # Errors
    /// When something is left.
    pub fn remove(layout: &Layout) -> Result<(), StepError> {
        let names = ["source", "compiler", "cache", "gopath", "apt"];
        names.iter().try_for_each(|name| Ok(files::remove(&layout.kubernetes().join(name))?))
    }
}

fn compiler(layout: &Layout, apt: &Apt<'_>, progress: &mut Progress) -> Result<(), StepError> {
    let debs = apt.download(&COMPILER.map(str::to_owned), progress)?;
    let folder = layout.kubernetes().join("compiler");
    let unpacked = partial(&folder);
    files::remove(&unpacked)?;
    apt.unpack(&debs, &unpacked, progress)?;
    files::remove(&folder)?;
    Ok(files::rename(&unpacked, &folder)?)
}

/// The name of the .dsc file has the version.
fn right_version(description: &Path) -> Result<(), StepError> {
    let name = description.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if name.starts_with(&format!("{SOURCE}_{DEBIAN_VERSION}-")) {
        return Ok(());
    }
    Err(StepError::OtherVersion { found: name.to_owned(), wanted: VERSION })
}

/// A program that Debian has compiled.
#[derive(Debug)]
pub struct Compiled {
    /// Its file.
    pub name: &'static str,
    /// Debian's package.
    package: &'static str,
}

impl Compiled {
    pub const fn new(name: &'static str, package: &'static str) -> Self {
        Self { name, package }
    }

    /// Downloads it to `destination`.
    ///
    /// # Errors
    /// When the mirror cannot be reached.
    pub fn install(
        &self,
        layout: &Layout,
        destination: &Path,
        progress: &mut Progress,
    ) -> Result<(), StepError> {
        let archive = Archive::of_this_machine()?;
        let package = Package { name: self.package.to_owned(), version: None };
        let unpacked = layout.kubernetes().join(format!("{}.partial", self.package));
        archive.unpack(layout, &package, &SUITES, &unpacked, progress)?;
        let program = unpacked.join("usr/bin").join(self.name);
        if !program.exists() {
            return Err(DebianError::NothingDownloaded(unpacked).into());
        }
        files::rename(&program, destination)?;
        Ok(files::remove(&unpacked)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_known_version_is_built() {
        let check = |name: &str| right_version(&Path::new("/d").join(name));
        assert!(check("kubernetes_1.20.5+really1.20.2-1.1+deb12u1.dsc").is_ok());
        let error = check("kubernetes_1.33.4-1.dsc").unwrap_err().to_string();
        assert!(error.contains("1.33.4") && error.contains("1.20.2"), "{error}");
    }
}
