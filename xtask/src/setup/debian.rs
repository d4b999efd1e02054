//! Debian packages without installing them: an apt of our own downloads, dpkg unpacks.
//!
//! It has its own list of sources, package lists and cache in the target directory, so it needs no root and
//! changes nothing of the machine's apt. The mirror's address is taken from the machine's sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::progress::Progress;
use super::sources::{self, Source, Suite};
use super::{StepError, files};
use crate::layout::Layout;
use crate::process;

/// The folder of the machine's apt configuration.
const APT: &str = "/etc/apt";
/// The names of the Debian archive's keys, which know every suite; the first that exists is used.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];

/// A package to fetch.
#[derive(Debug)]
pub struct Package {
    /// Its Debian name.
    pub name: &'static str,
    /// The upstream version it must have; any if `None`.
    pub version: Option<String>,
}

/// The archive that this machine's own release comes from.
#[derive(Debug)]
pub struct Archive {
    source: Source,
    codename: String,
}

impl Archive {
    /// Reads the machine's apt sources.
    ///
    /// # Errors
    /// When they name no archive of its own release.
    pub fn of_this_machine() -> Result<Self, StepError> {
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let codename = sources::os_release_field(&release, "VERSION_CODENAME").unwrap_or_default().to_owned();
        let all = read_sources(Path::new(APT));
        let source = sources::archive(&all, &codename).cloned();
        source
            .map(|source| Self { source, codename })
            .ok_or_else(|| StepError::NoArchive(Path::new(APT).to_owned()))
    }

    /// Downloads `package` from the first of `suites` that has it and unpacks it into `folder`, which is
    /// emptied before.
    ///
    /// # Errors
    /// When no suite has it, or apt or dpkg fails.
    pub fn unpack(
        &self,
        layout: &Layout,
        package: &Package,
        suites: &[Suite],
        folder: &Path,
        progress: &mut Progress,
    ) -> Result<(), StepError> {
        let apt = PrivateApt::at(layout.tools().join("apt"))?;
        for suite in suites {
            files::write(&apt.folder.join("sources.list"), &self.source_line(*suite))?;
            process::follow(apt.command(layout, "apt-get").arg("update"), |line| progress.tick(line))?;
            let list = process::capture(apt.command(layout, "apt-cache").args(["madison", package.name]))?;
            let Some(version) = pick_version(&list, package.version.as_deref()) else { continue };
            let mut download = apt.command(layout, "apt-get");
            download.arg("download").arg(format!("{}={version}", package.name));
            download.current_dir(apt.folder.join("downloads"));
            process::follow(&mut download, |line| progress.tick(line))?;
            unpack_downloaded(layout, &apt.folder.join("downloads"), folder, progress)?;
            return files::remove(&apt.folder);
        }
        let names = suites.iter().map(|suite| self.suite_name(*suite)).collect::<Vec<_>>();
        Err(StepError::NoPackage {
            package: package.name,
            version: package.version.clone(),
            suites: names.join(", "),
        })
    }

    fn suite_name(&self, suite: Suite) -> &str {
        match suite {
            Suite::Own => &self.codename,
            Suite::Named(name) => name,
        }
    }

    fn source_line(&self, suite: Suite) -> String {
        let keyring = KEYRINGS.iter().find(|path| Path::new(path).exists());
        let signed = keyring.map(|path| format!(" signed-by={path}")).unwrap_or_default();
        let components = match suite {
            Suite::Own => self.source.components.join(" "),
            Suite::Named(_) => "main".to_owned(),
        };
        format!(
            "deb [targets=Packages{signed}] {} {} {components}\n",
            self.source.uri,
            self.suite_name(suite)
        )
    }
}

/// All sources in `sources.list` and `sources.list.d`; unreadable files count as absent, as for apt.
fn read_sources(apt: &Path) -> Vec<Source> {
    let mut paths = vec![apt.join("sources.list")];
    if let Ok(entries) = fs::read_dir(apt.join("sources.list.d")) {
        let mut parts = entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>();
        parts.sort();
        paths.extend(parts);
    }
    let parse = |path: &PathBuf| {
        let text = fs::read_to_string(path).ok()?;
        match path.extension()?.to_str()? {
            "list" => Some(sources::parse_list(&text)),
            "sources" => Some(sources::parse_deb822(&text)),
            _ => None,
        }
    };
    paths.iter().filter_map(parse).flatten().collect()
}

/// Debian's version of the wanted upstream `version`, from lines `name | version | source` of apt-cache.
fn pick_version<'a>(list: &'a str, version: Option<&str>) -> Option<&'a str> {
    let mut versions = list.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim);
    versions.find(|debian| version.is_none_or(|wanted| upstream(debian) == wanted))
}

/// The upstream part of a Debian version: `1.95.0` of `1:1.95.0+dfsg1-2~bpo13+1`.
fn upstream(debian: &str) -> &str {
    let version = debian.split_once(':').map_or(debian, |(_, rest)| rest);
    version.split(['+', '-', '~']).next().unwrap_or(version)
}

fn unpack_downloaded(
    layout: &Layout,
    downloads: &Path,
    folder: &Path,
    progress: &mut Progress,
) -> Result<(), StepError> {
    let read = |source| StepError::File { action: "read", path: downloads.to_owned(), source };
    let file = fs::read_dir(downloads)
        .map_err(read)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| StepError::StillMissing(downloads.to_owned()))?;
    files::remove(folder)?;
    files::create_folder(folder)?;
    let mut dpkg = layout.command("dpkg");
    dpkg.arg("-x").arg(file).arg(folder);
    Ok(process::follow(&mut dpkg, |line| progress.tick(line))?)
}

/// An apt with folders of its own.
#[derive(Debug)]
struct PrivateApt {
    folder: PathBuf,
}

impl PrivateApt {
    /// Starts with empty folders, so that nothing of an interrupted run is taken for whole.
    fn at(folder: PathBuf) -> Result<Self, StepError> {
        files::remove(&folder)?;
        for sub in ["state/lists/partial", "cache/archives/partial", "downloads"] {
            files::create_folder(&folder.join(sub))?;
        }
        Ok(Self { folder })
    }

    fn command(&self, layout: &Layout, program: &str) -> Command {
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
        let mut command = layout.command(program);
        command.env("LC_ALL", "C.UTF-8");
        for option in options {
            command.arg("-o").arg(option);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upstream_version_must_be_the_very_same() {
        let list = "  rust-src | 1.96.1+dfsg1-2~bpo13+1 | http://x trixie-backports/main amd64 Packages\n\
            rust-src | 1.95.0+dfsg1-2~bpo13+1 | http://x trixie-backports/main amd64 Packages\n";
        assert_eq!(pick_version(list, Some("1.95.0")), Some("1.95.0+dfsg1-2~bpo13+1"));
        assert_eq!(pick_version(list, Some("1.95")), None);
        assert_eq!(pick_version(list, None), Some("1.96.1+dfsg1-2~bpo13+1"));
        assert_eq!(pick_version("", None), None);
    }

    #[test]
    fn upstream_versions() {
        for (debian, expected) in
            [("1.95.0+dfsg1-2", "1.95.0"), ("2:1.2-1", "1.2"), ("1.0~rc1-1", "1.0"), ("3", "3")]
        {
            assert_eq!(upstream(debian), expected);
        }
    }

    #[test]
    fn sources_of_both_formats_are_read_in_order() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("sources.list.d")).unwrap();
        fs::write(temp.path().join("sources.list"), "deb http://a.test x main\n").unwrap();
        let parts = temp.path().join("sources.list.d");
        fs::write(parts.join("c.list"), "deb http://c.test x main\n").unwrap();
        fs::write(parts.join("b.sources"), "Types: deb\nURIs: http://b.test\nSuites: x\nComponents: main\n")
            .unwrap();
        fs::write(parts.join("old.list.save"), "deb http://old.test x main\n").unwrap();
        let uris = read_sources(temp.path()).into_iter().map(|source| source.uri).collect::<Vec<_>>();
        assert_eq!(uris, ["http://a.test", "http://b.test", "http://c.test"]);
    }

    #[test]
    fn named_suites_use_main_and_the_own_suite_its_components() {
        let source = Source {
            uri: "http://a.test".into(),
            suites: vec!["x".into()],
            components: vec!["main".into(), "contrib".into()],
        };
        let archive = Archive { source, codename: "x".into() };
        assert!(archive.source_line(Suite::Own).ends_with("] http://a.test x main contrib\n"));
        assert!(archive.source_line(Suite::Named("sid")).ends_with("] http://a.test sid main\n"));
    }
}
