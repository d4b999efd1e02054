//! The C library of another Debian, unpacked: one to link the shipped binary with, one for the image.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::StepError;
use xtask_common::debian::{Apt, Archive, Suite, newest};
use xtask_common::files::{self, FileError};
use xtask_common::layout::Layout;
use xtask_common::process;
use xtask_common::progress::Progress;

/// The file that lists the packages, one a line: name, version and the SHA-256 digest of its file.
const LIST: &str = "packages";

/// Packages of one Debian release, unpacked into a folder.
#[derive(Debug)]
pub struct DebianRoot {
    name: &'static str,
    suites: &'static [Suite],
    packages: &'static [&'static str],
    /// A file that is there when it is whole.
    mark: &'static str,
}

/// The oldest C library with which the shipped binary runs.
pub const C_LIBRARY: DebianRoot = DebianRoot {
    name: "c-library",
    suites: &[Suite::Named("bullseye")],
    packages: &["libc6", "libc6-dev", "libgcc-s1", "linux-libc-dev"],
    mark: "usr/lib/x86_64-linux-gnu/libc.so",
};

/// What the image has below the binary.
pub const IMAGE_BASE: DebianRoot = DebianRoot {
    name: "image-base",
    suites: &[Suite::Named("trixie"), Suite::Security("trixie")],
    packages: &["libc6", "libgcc-s1"],
    mark: "usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
};

/// A package in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The SHA-256 digest of the package.
    pub digest: String,
}

impl DebianRoot {
    /// Where it is.
    pub fn folder(&self, layout: &Layout) -> PathBuf {
        layout.tools().join(self.name)
    }

    /// Whether it is there.
    pub fn is_there(&self, layout: &Layout) -> bool {
        let folder = self.folder(layout);
        folder.join(self.mark).exists() && folder.join(LIST).exists()
    }

    /// The packages in it.
    ///
    /// # Errors
    /// When their list can't be read.
    pub fn packages(&self, layout: &Layout) -> Result<Vec<Unpacked>, FileError> {
        let text = files::read(&self.folder(layout).join(LIST))?;
        Ok(parse(&String::from_utf8_lossy(&text)))
    }

    /// Downloads and unpacks the newest versions.
    ///
    /// # Errors
    /// When they can't be downloaded.
    pub fn install(&self, layout: &Layout, progress: &mut Progress) -> Result<(), StepError> {
        let archive = Archive::of_this_machine()?;
        let apt = Apt::at(layout, layout.tools().join("apt"))?;
        apt.update(&archive.source_lines(self.suites), progress)?;
        let rows = apt.versions(self.packages)?;
        let mut exact = Vec::new();
        for package in self.packages {
            // A machine's own version is listed too when it is installed; only these suites are asked.
            let row = newest(&rows, package);
            exact.push(row.ok_or_else(|| archive.no_package(package, None, self.suites))?.clone());
        }
        let wanted: Vec<_> = exact.iter().map(|row| row.exact()).collect();
        let debs = apt.download(&wanted, progress)?;
        let partial = self.folder(layout).with_extension("partial");
        files::remove(&partial)?;
        apt.unpack(&debs, &partial, progress)?;
        let mut list = String::new();
        for deb in &debs {
            let digest = process::capture(layout.command("sha256sum").arg(deb))?;
            let field = |name| process::capture(layout.command("dpkg-deb").arg("--field").arg(deb).arg(name));
            let (name, version) = (field("Package")?, field("Version")?);
            let digest = digest.split_whitespace().next().unwrap_or_default();
            list.push_str(&format!("{} {} {digest}\n", name.trim(), version.trim()));
        }
        relative_links(&partial, &partial)?;
        files::write(&partial.join(LIST), list)?;
        files::remove(&self.folder(layout))?;
        files::rename(&partial, &self.folder(layout))?;
        if self.is_there(layout) { Ok(()) } else { Err(StepError::StillMissing(self.folder(layout))) }
    }
}

fn parse(list: &str) -> Vec<Unpacked> {
    let rows = list.lines().filter_map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some(Unpacked { name: words.next()?, version: words.next()?, digest: words.next()? })
    });
    rows.collect()
}

/// Makes absolute symbolic links below `folder` point into `root`, as they do in the system that they are
/// for.
fn relative_links(folder: &Path, root: &Path) -> Result<(), FileError> {
    let entries = fs::read_dir(folder).map_err(FileError::of("read", folder))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() {
            relative_links(&path, root)?;
        } else if meta.is_symlink() {
            let target = fs::read_link(&path).map_err(FileError::of("read", &path))?;
            let depth = folder.strip_prefix(root).map_or(0, |inside| inside.components().count());
            if let Some(target) = relative(&target, depth) {
                files::remove(&path)?;
                std::os::unix::fs::symlink(target, &path).map_err(FileError::of("create", &path))?;
            }
        }
    }
    Ok(())
}

/// An absolute target as seen from a folder that is `depth` below the root; `None` if it is relative already.
fn relative(target: &Path, depth: usize) -> Option<PathBuf> {
    let inside = target.strip_prefix("/").ok()?;
    let up = std::iter::repeat_n(Component::ParentDir, depth);
    Some(up.chain(inside.components()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_links_stay_inside() {
        let target = relative(Path::new("/lib/x/libdl.so.2"), 3);
        assert_eq!(target.as_deref(), Some(Path::new("../../../lib/x/libdl.so.2")));
        assert_eq!(relative(Path::new("libm.so.6"), 3), None);
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("usr/lib")).unwrap();
        fs::create_dir_all(temp.path().join("lib")).unwrap();
        fs::write(temp.path().join("lib/a"), "text").unwrap();
        std::os::unix::fs::symlink("/lib/a", temp.path().join("usr/lib/b")).unwrap();
        relative_links(temp.path(), temp.path()).unwrap();
        assert_eq!(fs::read_to_string(temp.path().join("usr/lib/b")).unwrap(), "text");
    }

    #[test]
    fn the_list_names_versions_and_digests() {
        let found = parse("libc6 2.31-13 abc\nbroken\n");
        let expected =
            Unpacked { name: "libc6".to_owned(), version: "2.31-13".to_owned(), digest: "abc".to_owned() };
        assert_eq!(found, [expected]);
    }
}
