//! An apt with folders of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::DebianError;
use super::list::{self, Row};
use crate::files::{self, FileError};
use crate::layout::Layout;
use crate::process;
use crate::progress::Progress;

/// apt's folders; removed when this is dropped.
#[derive(Debug)]
pub struct Apt<'a> {
    layout: &'a Layout,
    folder: PathBuf,
}

impl<'a> Apt<'a> {
    /// Starts with empty folders in `folder`, so that nothing of an interrupted run is taken for whole.
    ///
    /// # Errors
    /// When the folders can't be made.
    pub fn at(layout: &'a Layout, folder: PathBuf) -> Result<Self, FileError> {
        files::remove(&folder)?;
        for sub in ["state/lists/partial", "cache/archives/partial", "downloads"] {
            files::create_folder(&folder.join(sub))?;
        }
        Ok(Self { layout, folder })
    }

    /// Reads the package lists of these lines of sources.list(5), and of no others.
    ///
    /// # Errors
    /// When one of them can't be reached.
    pub fn update(&self, sources: &[String], progress: &mut Progress) -> Result<(), DebianError> {
        files::write(&self.folder.join("sources.list"), sources.join("\n") + "\n")?;
        Ok(process::follow(self.command("apt-get").arg("update"), |line| progress.tick(line))?)
    }

    /// Every version of the packages `names`; unknown names are left out.
    ///
    /// # Errors
    /// When apt fails.
    pub fn versions(&self, names: &[&str]) -> Result<Vec<Row>, DebianError> {
        let text = process::capture(self.command("apt-cache").arg("madison").args(names))?;
        Ok(list::parse_madison(&text))
    }

    /// The names of the packages that match a regular expression.
    ///
    /// # Errors
    /// When apt fails.
    pub fn names(&self, pattern: &str) -> Result<Vec<String>, DebianError> {
        let mut command = self.command("apt-cache");
        Ok(list::parse_search(&process::capture(command.args(["search", "--names-only", pattern]))?))
    }

    /// Downloads exactly these packages (`name=version`), none they depend on, and returns their files.
    ///
    /// # Errors
    /// When apt fails.
    pub fn download(
        &self,
        packages: &[String],
        progress: &mut Progress,
    ) -> Result<Vec<PathBuf>, DebianError> {
        let folder = self.folder.join("downloads");
        let mut command = self.command("apt-get");
        command.arg("download").args(packages).current_dir(&folder);
        process::follow(&mut command, |line| progress.tick(line))?;
        packages_in(&folder)
    }

    /// Downloads the newest version of a source package, and returns its description (`.dsc`), next to which
    /// its other files are.
    ///
    /// # Errors
    /// When apt fails.
    pub fn download_source(&self, name: &str, progress: &mut Progress) -> Result<PathBuf, DebianError> {
        let folder = self.folder.join("downloads");
        let mut command = self.command("apt-get");
        command.args(["source", "--download-only", name]).current_dir(&folder);
        process::follow(&mut command, |line| progress.tick(line))?;
        let found = files_in(&folder, "dsc")?.into_iter().next();
        found.ok_or(DebianError::NothingDownloaded(folder))
    }

    /// Downloads the newest versions in `suite` of `packages` and of all they depend on that is not installed
    /// on this machine; returns their files, none when all are installed.
    ///
    /// # Errors
    /// When apt fails.
    pub fn download_missing(
        &self,
        packages: &[&str],
        suite: &str,
        progress: &mut Progress,
    ) -> Result<Vec<PathBuf>, DebianError> {
        let mut command = self.command("apt-get");
        command.args(["--download-only", "--yes", "--no-install-recommends", "-t", suite, "install"]);
        command.args(packages);
        process::follow(&mut command, |line| progress.tick(line))?;
        packages_in(&self.folder.join("cache/archives"))
    }

    /// Unpacks package files into `folder`.
    ///
    /// # Errors
    /// When dpkg fails.
    pub fn unpack(
        &self,
        debs: &[PathBuf],
        folder: &Path,
        progress: &mut Progress,
    ) -> Result<(), DebianError> {
        files::create_folder(folder)?;
        for deb in debs {
            let mut dpkg = self.layout.command("dpkg");
            dpkg.arg("-x").arg(deb).arg(folder);
            process::follow(&mut dpkg, |line| progress.tick(line))?;
        }
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let path = |sub: &str| self.folder.join(sub).display().to_string();
        let options = [
            format!("Dir::Etc::SourceList={}", path("sources.list")),
            "Dir::Etc::SourceParts=-".to_owned(),
            format!("Dir::State={}", path("state")),
            "Dir::State::status=/var/lib/dpkg/status".to_owned(),
            format!("Dir::Cache={}", path("cache")),
            // apt's own user may not enter the target directory.
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
            // A suite that can't be reached is an error here, not a warning.
            "APT::Update::Error-Mode=any".to_owned(),
            "Acquire::Retries=2".to_owned(),
        ];
        let mut command = self.layout.command(program);
        command.env("LC_ALL", "C.UTF-8");
        for option in options {
            command.arg("-o").arg(option);
        }
        command
    }
}

impl Drop for Apt<'_> {
    fn drop(&mut self) {
        // What can't be removed now is removed at the next start.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn packages_in(folder: &Path) -> Result<Vec<PathBuf>, DebianError> {
    files_in(folder, "deb")
}

/// The files in `folder` with this extension, in order.
fn files_in(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, DebianError> {
    let entries = fs::read_dir(folder).map_err(FileError::of("read", folder))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found =
        paths.filter(|path| path.extension().is_some_and(|end| end == extension)).collect::<Vec<_>>();
    found.sort();
    Ok(found)
}
