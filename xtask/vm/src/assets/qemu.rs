//! QEMU: Debian's packages with those of its libraries that this machine does not have, unpacked.

use std::env;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::{Asset, Cache, Lookup, in_name};
use super::{AssetError, Qemu};
use xtask_common::debian::{self, Apt, Archive, DebianError, Suite};
use xtask_common::files::{self, FileError};
use xtask_common::layout::Layout;
use xtask_common::process;
use xtask_common::progress::Progress;

const PROGRAM: &str = "qemu-system-x86_64";
const PACKAGE: &str = "qemu-system-x86";
/// 7.2 crashed guests with two processors as soon as kernel text was patched; 10.0 did not. Nothing between
/// was tried, 8.0 reworked the emulation.
const OLDEST: u32 = 8;
const ASSET: Asset<'_> = Asset {
    link: "qemu",
    title: "QEMU",
    doing: "downloading Debian's packages, about 20 seconds",
    advice: "let this machine reach its Debian mirror, then run again; or install qemu-system-x86 yourself",
};
/// Its version, in the folder of its packages.
const VERSION: &str = "version";

impl Qemu {
    /// QEMU with its own libraries and firmware, and no other arguments.
    pub fn command(&self) -> Command {
        let inside = |path: &str| self.folder.join(path);
        let mut command = Command::new(inside("usr/bin").join(PROGRAM));
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(inside);
        // The folders' names have no colon: see `in_name`.
        if let Ok(path) = env::join_paths(libraries) {
            command.env("LD_LIBRARY_PATH", path);
        }
        for data in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
            command.arg("-L").arg(inside(data));
        }
        command
    }
}

/// The QEMU of this machine's Debian release or its backports, whichever is newer, or one that is installed.
///
/// # Errors
/// When it can't be downloaded and none is installed.
pub fn qemu(layout: &Layout, lookup: Lookup) -> Result<Qemu, AssetError> {
    let folder = Cache::of(layout).ensure(ASSET, lookup, |cache, progress| {
        match from_debian(layout, cache, progress) {
            Err(AssetError::Debian(DebianError::NoArchive(path))) => {
                installed(cache).map_err(|_| DebianError::NoArchive(path).into())
            }
            other => other,
        }
    })?;
    let version = String::from_utf8_lossy(&files::read(&folder.join(VERSION))?).into_owned();
    Ok(Qemu { folder, version })
}

fn from_debian(layout: &Layout, cache: &Cache, progress: &mut Progress) -> Result<PathBuf, AssetError> {
    let archive = Archive::of_this_machine()?;
    let apt = Apt::at(layout, cache.scrap("apt"))?;
    let all = [Suite::Own, Suite::OwnSecurity, Suite::OwnBackports];
    // Testing and unstable have no backports.
    if apt.update(&archive.source_lines(&all), progress).is_err() {
        apt.update(&archive.source_lines(&[Suite::Own]), progress)?;
    }
    let rows = apt.versions(&[PACKAGE])?;
    let row = debian::newest(&rows, PACKAGE).ok_or_else(|| archive.no_package(PACKAGE, None, &all))?;
    if major(debian::upstream(&row.version)) < Some(OLDEST) {
        return installed(cache).map_err(|_| old(format!("Debian's is {}", row.version)));
    }
    let debs = apt.download_missing(&[PACKAGE], &row.suite, progress)?;
    if !debs.iter().any(|deb| is_of(deb, PACKAGE)) {
        return installed(cache);
    }
    cache.folder(&format!("qemu-{}", in_name(&row.version)), |folder| {
        apt.unpack(&debs, folder, progress)?;
        files::write(&folder.join(VERSION), &row.version)?;
        // Only a start shows that no library is missing.
        let version = row.version.clone();
        process::capture(Qemu { folder: folder.to_owned(), version }.command().arg("--version"))?;
        Ok(())
    })
}

/// The one on the path, if it is new enough, as if it had been unpacked.
fn installed(cache: &Cache) -> Result<PathBuf, AssetError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let program =
        env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(|program| program.is_file());
    let program = program.ok_or_else(|| old("none is installed".to_owned()))?;
    let text = process::capture(Command::new(&program).arg("--version"))?;
    let version = emulator_version(&text).filter(|version| major(version) >= Some(OLDEST));
    let version = version.ok_or_else(|| {
        old(format!("{} is {}", program.display(), text.lines().next().unwrap_or_default()))
    })?;
    cache.folder(&format!("qemu-installed-{version}"), |folder| {
        let bin = folder.join("usr/bin");
        files::create_folder(&bin)?;
        let link = bin.join(PROGRAM);
        symlink(&program, &link).map_err(FileError::of("create", &link))?;
        Ok(files::write(&folder.join(VERSION), version)?)
    })
}

fn old(found: String) -> AssetError {
    AssetError::OldQemu { wanted: OLDEST, found }
}

/// Whether a package file, `name_version_architecture.deb`, is of `package`.
fn is_of(deb: &Path, package: &str) -> bool {
    let name = deb.file_name().map(|name| name.to_string_lossy());
    name.and_then(|name| name.split_once('_').map(|(name, _)| name == package)).unwrap_or(false)
}

/// `10.0.2` of `QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)`.
fn emulator_version(text: &str) -> Option<&str> {
    text.lines().next()?.split_once("version ")?.1.split_whitespace().next()
}

fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let text = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2~bpo12+1)\nCopyright\n";
        assert_eq!(emulator_version(text), Some("10.0.2"));
        assert_eq!(emulator_version(""), None);
        assert_eq!(major("10.0.2"), Some(10));
        assert!(major("7.2") < Some(OLDEST) && major("odd") < Some(OLDEST));
    }

    #[test]
    fn package_files_are_recognised() {
        let deb = Path::new("/x/qemu-system-x86_1%3a10.0.2_amd64.deb");
        assert!(is_of(deb, "qemu-system-x86"));
        assert!(!is_of(deb, "qemu-system"));
        assert!(!is_of(Path::new("/x/odd.deb"), "odd"));
    }

    #[test]
    fn the_command_uses_what_was_unpacked() {
        let command = Qemu { folder: "/vm/qemu-1_10".into(), version: "1:10".into() }.command();
        let line = process::line(&command);
        assert!(
            line.starts_with("/vm/qemu-1_10/usr/bin/qemu-system-x86_64 -L /vm/qemu-1_10/usr/share/qemu ")
        );
        assert!(command.get_envs().any(|(name, value)| {
            name == "LD_LIBRARY_PATH" && value.is_some_and(|value| value.to_string_lossy().contains(":/vm/"))
        }));
    }
}
