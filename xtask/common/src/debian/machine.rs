//! The archive that this machine's packages come from.

use std::fs;
use std::path::{Path, PathBuf};

use super::sources::{self, Source};
use super::{Apt, DebianError, list};
use crate::files;
use crate::layout::Layout;
use crate::progress::Progress;

/// The folder of the machine's apt configuration.
const APT: &str = "/etc/apt";
/// The names of the Debian archive's keys, which know every suite; the first that exists is used.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];

/// A package to fetch.
#[derive(Debug)]
pub struct Package {
    /// Its Debian name.
    pub name: String,
    /// The upstream version it must have; any if `None`.
    pub version: Option<String>,
}

/// A suite to look for a package in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// The release that this machine runs.
    Own,
    /// Newer packages for the release that this machine runs.
    OwnBackports,
    /// The security updates of the release that this machine runs.
    OwnSecurity,
    /// This one.
    Named(&'static str),
    /// The security updates of this release.
    Security(&'static str),
}

/// The archive that this machine's own release comes from.
#[derive(Debug)]
pub struct Archive {
    source: Source,
    security: Option<Source>,
    codename: String,
}

impl Archive {
    /// Reads the machine's apt sources.
    ///
    /// # Errors
    /// When they name no archive of its own release.
    pub fn of_this_machine() -> Result<Self, DebianError> {
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let codename = sources::os_release_field(&release, "VERSION_CODENAME").unwrap_or_default().to_owned();
        let all = read_sources(Path::new(APT));
        let source = sources::archive(&all, &codename).cloned();
        let security = sources::archive(&all, &format!("{codename}-security")).cloned();
        source
            .map(|source| Self { source, security, codename })
            .ok_or_else(|| DebianError::NoArchive(Path::new(APT).to_owned()))
    }

    /// Downloads `package` from the first of `suites` that has it and unpacks it into `folder`, which is
    /// emptied before. apt works in a folder next to it.
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
    ) -> Result<(), DebianError> {
        let apt = Apt::at(layout, folder.with_file_name("apt"))?;
        for suite in suites {
            apt.update(&self.source_lines(&[*suite]), progress)?;
            let rows = apt.versions(&[&package.name])?;
            let Some(row) = list::of_upstream(&rows, &package.name, package.version.as_deref()) else {
                continue;
            };
            let debs = apt.download(&[row.exact()], progress)?;
            if debs.is_empty() {
                return Err(DebianError::NothingDownloaded(folder.to_owned()));
            }
            files::remove(folder)?;
            return apt.unpack(&debs, folder, progress);
        }
        Err(self.no_package(&package.name, package.version.clone(), suites))
    }

    /// The lines of sources.list(5) for `suites`; security updates only if the machine itself gets them,
    /// since its mirror may not have them.
    pub fn source_lines(&self, suites: &[Suite]) -> Vec<String> {
        suites.iter().filter_map(|suite| self.source_line(*suite)).collect()
    }

    /// [`Archive::source_lines`], and those of the source packages of the same suites.
    pub fn source_code_lines(&self, suites: &[Suite]) -> Vec<String> {
        let lines = self.source_lines(suites);
        let source_code = lines.iter().map(|line| {
            let (_, rest) = line.split_once("targets=Packages").unwrap_or(("", line.as_str()));
            format!("deb-src [targets=Sources{rest}")
        });
        source_code.chain(lines.clone()).collect()
    }

    /// The error that says where `package` was looked for.
    pub fn no_package(&self, package: &str, version: Option<String>, suites: &[Suite]) -> DebianError {
        let names = suites.iter().map(|suite| self.suite_name(*suite)).collect::<Vec<_>>();
        DebianError::NoPackage { package: package.to_owned(), version, suites: names.join(", ") }
    }

    fn suite_name(&self, suite: Suite) -> String {
        match suite {
            Suite::Own => self.codename.clone(),
            Suite::OwnBackports => format!("{}-backports", self.codename),
            Suite::OwnSecurity => format!("{}-security", self.codename),
            Suite::Named(name) => name.to_owned(),
            Suite::Security(release) => format!("{release}-security"),
        }
    }

    fn source_line(&self, suite: Suite) -> Option<String> {
        let keyring = KEYRINGS.iter().find(|path| Path::new(path).exists());
        let signed = keyring.map(|path| format!(" signed-by={path}")).unwrap_or_default();
        let components = match suite {
            Suite::Own => self.source.components.join(" "),
            _ => "main".to_owned(),
        };
        let source = match suite {
            Suite::OwnSecurity | Suite::Security(_) => self.security.as_ref()?,
            _ => &self.source,
        };
        let name = self.suite_name(suite);
        Some(format!("deb [targets=Packages{signed}] {} {name} {components}", source.uri))
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let source = |uri: &str| Source {
            uri: uri.into(),
            suites: vec!["x".into()],
            components: vec!["main".into(), "contrib".into()],
        };
        let mut archive = Archive { source: source("http://a.test"), security: None, codename: "x".into() };
        let ends = |archive: &Archive, suite, end: &str| {
            archive.source_line(suite).is_some_and(|line| line.ends_with(end))
        };
        assert!(ends(&archive, Suite::Own, "] http://a.test x main contrib"));
        assert!(ends(&archive, Suite::OwnBackports, "] http://a.test x-backports main"));
        assert!(ends(&archive, Suite::Named("sid"), "] http://a.test sid main"));
        assert_eq!(archive.source_lines(&[Suite::Own, Suite::Security("y")]).len(), 1);
        let lines = archive.source_code_lines(&[Suite::Named("sid")]);
        assert!(
            lines[0].starts_with("deb-src [targets=Sources")
                && lines[0].ends_with("] http://a.test sid main")
        );
        assert_eq!(lines[1..], archive.source_lines(&[Suite::Named("sid")]));
        archive.security = Some(source("http://s.test"));
        assert!(ends(&archive, Suite::Security("y"), "] http://s.test y-security main"));
    }
}
