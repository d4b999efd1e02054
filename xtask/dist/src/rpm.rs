//! An RPM package, in the format of version 4, which every distribution reads.

use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};

use crate::archive::Effort;
use crate::elf::Needs;
use crate::tree::{Content, Tree};
use crate::{DistError, Release};

const POST: &str = include_str!("../../../deploy/packages/rpm-post");
const PREUN: &str = include_str!("../../../deploy/packages/rpm-preun");
const POSTUN: &str = include_str!("../../../deploy/packages/rpm-postun");
const ARCHITECTURE: &str = "x86_64";
const NAME: &str = "nodewarden";
/// The folders that belong to the package itself; the others are of the system.
const OWN_FOLDERS: [&str; 4] =
    ["etc/nodewarden", "usr/share/nodewarden", "usr/share/doc/nodewarden", "usr/share/licenses/nodewarden"];

/// A package's file name.
///
/// # Errors
/// When the release's time is out of range.
pub fn file_name(release: &Release) -> Result<String, DistError> {
    Ok(format!("{NAME}-{}-1.{ARCHITECTURE}.rpm", release.package_version()?))
}

/// The package that installs `tree`, whose program has `needs`.
///
/// # Errors
/// When the package can't be written.
pub fn package(release: &Release, tree: &Tree, needs: &Needs, effort: Effort) -> Result<Vec<u8>, DistError> {
    let time = u32::try_from(release.time).map_err(|_| DistError::Time(release.time))?;
    let level = if effort == Effort::Best { 9 } else { 1 };
    let config = BuildConfig::v4()
        .source_date(time)
        .compression(CompressionWithLevel::Gzip(level))
        .reserved_space(None);
    let version = release.package_version()?;
    let mut builder = PackageBuilder::new(
        NAME,
        &version,
        "Apache-2.0 OR GPL-2.0",
        ARCHITECTURE,
        "Node agent that is woken by the kernel",
    );
    builder
        .using_config(config)
        .release("1")
        .build_host("localhost")
        .cookie(&release.commit)
        .vcs(format!("commit {}", release.commit))
        .description(
            "nodewarden watches what the kernel does to each pod, container and service of this machine, by eBPF \
             programs: who was killed for memory and at whose limit, who waits for a CPU, a disk or memory. In mode \
             manage it runs pods in place of a kubelet.",
        )
        .post_install_script(POST)
        .pre_uninstall_script(PREUN)
        .post_uninstall_script(POSTUN)
        .requires(Dependency::any("systemd"));
    for (library, version) in needs.versions() {
        builder.requires(Dependency::any(format!("{library}({version})(64bit)")));
    }
    for (path, entry) in tree.entries() {
        let at = format!("/{path}");
        let mode = u16::try_from(entry.mode & 0o7777).unwrap_or(0o644);
        match &entry.content {
            Content::Folder => {
                if OWN_FOLDERS.iter().any(|own| path == *own || path.starts_with(&format!("{own}/"))) {
                    builder.with_dir_entry(FileOptions::dir(at).permissions(mode))?;
                }
            }
            Content::File(data) => {
                let options = FileOptions::new(at).permissions(mode);
                let options = if entry.configuration { options.config().noreplace() } else { options };
                builder.with_file_contents(data.clone(), options)?;
            }
            Content::Link(target) => {
                builder.with_symlink(FileOptions::symlink(at, target.clone()))?;
            }
        }
    }
    let mut package = Vec::new();
    builder.build()?.write(&mut package)?;
    Ok(package)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release;

    #[test]
    fn the_package_has_what_it_needs_and_belongs_to_root() {
        let mut tree = Tree::default();
        tree.program("usr/bin/nodewarden", "#!/bin/sh\n");
        tree.configuration("etc/nodewarden/config.yaml", "a: b\n");
        tree.link("usr/bin/warden", "nodewarden");
        let needs = Needs::of(&std::fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap();
        let pack = || package(&release::example(), &tree, &needs, Effort::Quick).unwrap();
        let data = pack();
        assert_eq!(data, pack(), "the same tree makes the same package");
        let read = ::rpm::Package::parse(&mut data.as_slice()).unwrap();
        read.metadata.get_post_install_script().unwrap();
        let files = read.metadata.get_file_entries().unwrap();
        let paths: Vec<_> = files.iter().map(|file| file.path().display().to_string()).collect();
        assert_eq!(
            paths,
            ["/etc/nodewarden", "/etc/nodewarden/config.yaml", "/usr/bin/nodewarden", "/usr/bin/warden"]
        );
        let requires = read.metadata.get_requires().unwrap();
        assert!(requires.iter().any(|own| own.name.starts_with("libc.so.6(GLIBC_2.")), "{requires:?}");
        assert_eq!(read.metadata.get_build_host().unwrap(), "localhost");
    }
}
