//! A Debian package: `ar` around two tar archives (deb(5)).

use md5::{Digest, Md5};

use crate::archive::{self, Effort};
use crate::elf::Needs;
use crate::tree::{Content, Tree};
use crate::{DistError, Release};

const POSTINST: &str = include_str!("../../../deploy/packages/postinst");
const PRERM: &str = include_str!("../../../deploy/packages/prerm");
const POSTRM: &str = include_str!("../../../deploy/packages/postrm");
const ARCHITECTURE: &str = "amd64";
/// What `ar` files begin with.
const MAGIC: &[u8] = b"!<arch>\n";

/// A package's file name.
///
/// # Errors
/// When the release's time is out of range.
pub fn file_name(release: &Release) -> Result<String, DistError> {
    Ok(format!("nodewarden_{}_{ARCHITECTURE}.deb", release.package_version()?))
}

/// The package that installs `tree`, whose program has `needs`.
///
/// # Errors
/// When an archive can't be written.
pub fn package(release: &Release, tree: &Tree, needs: &Needs, effort: Effort) -> Result<Vec<u8>, DistError> {
    let time = release.seconds()?;
    let mut control = Tree::default();
    control.file("control", description(release, tree, needs)?);
    control.file("conffiles", configuration(tree));
    control.file("md5sums", sums(tree));
    for (name, text) in [("postinst", POSTINST), ("prerm", PRERM), ("postrm", POSTRM)] {
        control.program(name, text);
    }
    let control = archive::gzip(&archive::tar(&control, "", time)?, effort)?;
    let data = archive::gzip(&archive::tar(tree, "", time)?, effort)?;
    let mut package = MAGIC.to_vec();
    for (name, data) in
        [("debian-binary", b"2.0\n".as_slice()), ("control.tar.gz", &control), ("data.tar.gz", &data)]
    {
        member(&mut package, name, time, data);
    }
    Ok(package)
}

/// Adds a file to an `ar` archive: a header of 60 characters, the content, and a line feed if its length is
/// odd.
fn member(into: &mut Vec<u8>, name: &str, time: u64, data: &[u8]) {
    let header = format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", data.len());
    into.extend_from_slice(header.as_bytes());
    into.extend_from_slice(data);
    if data.len() % 2 == 1 {
        into.push(b'\n');
    }
}

fn description(release: &Release, tree: &Tree, needs: &Needs) -> Result<String, DistError> {
    let kilobytes = tree.size().div_ceil(1024);
    let c_library = needs.c_library().and_then(|version| version.strip_prefix("GLIBC_"));
    let c_library = c_library.map(|version| format!("libc6 (>= {version}), ")).unwrap_or_default();
    Ok(format!(
        "Package: nodewarden\nVersion: {}\nArchitecture: {ARCHITECTURE}\nSection: admin\nPriority: optional\n\
         Maintainer: The authors of nodewarden <nodewarden@localhost>\nInstalled-Size: {kilobytes}\n\
         Depends: {c_library}libgcc-s1 (>= 4.2), init-system-helpers (>= 1.54)\n\
         Recommends: systemd\nSuggests: bash-completion, prometheus\n\
         Description: node agent that is woken by the kernel\n\
         {}nodewarden watches what the kernel does to each pod, container and service of this\n\
         {}machine, by eBPF programs: who was killed for memory and at whose limit, who waits\n\
         {}for a CPU, a disk or memory. In mode manage it runs pods in place of a kubelet.\n",
        release.package_version()?,
        ' ',
        ' ',
        ' ',
    ))
}

/// The paths of configuration files, which dpkg keeps when the user changed them.
fn configuration(tree: &Tree) -> String {
    let files = tree.entries().filter(|(_, entry)| entry.configuration);
    files.map(|(path, _)| format!("/{path}\n")).collect()
}

/// The sums by which `dpkg --verify` finds changed files; those of configuration are elsewhere.
fn sums(tree: &Tree) -> String {
    let files = tree.entries().filter(|(_, entry)| !entry.configuration);
    let lines = files.filter_map(|(path, entry)| match &entry.content {
        Content::File(data) => {
            let sum: String = Md5::digest(data).iter().map(|byte| format!("{byte:02x}")).collect();
            Some(format!("{sum}  {path}\n"))
        }
        _ => None,
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::release;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.program("usr/bin/nodewarden", "#!/bin/sh\n");
        tree.configuration("etc/nodewarden/config.yaml", "a: b\n");
        tree
    }

    #[test]
    fn dpkg_reads_the_package() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x.deb");
        let needs = Needs::of(&std::fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap();
        std::fs::write(&path, package(&release::example(), &tree(), &needs, Effort::Quick).unwrap()).unwrap();
        let ask = |arguments: &[&str]| {
            let Ok(output) =
                Command::new("dpkg-deb").arg(arguments[0]).arg(&path).args(&arguments[1..]).output()
            else {
                // The line by which `cargo xtask test` counts it as skipped.
                println!("nodewarden-test: skipped: dpkg-deb is not installed");
                return None;
            };
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        };
        let Some(version) = ask(&["--field", "Version"]) else { return };
        assert_eq!(version.trim(), "0.1.0+git20261124.011927.9af8bbfa5433");
        let depends = ask(&["--field", "Depends"]).unwrap();
        assert!(depends.starts_with("libc6 (>= 2."), "{depends}");
        let contents = ask(&["--contents"]).unwrap();
        assert!(contents.contains("-rwxr-xr-x root/root        10 2026-11-24 01:19"), "{contents}");
        assert_eq!(ask(&["--info", "conffiles"]).unwrap(), "/etc/nodewarden/config.yaml\n");
        assert!(ask(&["--info", "md5sums"]).unwrap().ends_with("  usr/bin/nodewarden\n"));
    }

    #[test]
    fn the_same_tree_makes_the_same_package() {
        let pack = || package(&release::example(), &tree(), &Needs::default(), Effort::Quick).unwrap();
        assert_eq!(pack(), pack());
    }

    #[test]
    fn members_of_odd_length_are_padded() {
        let mut archive = Vec::new();
        member(&mut archive, "a", 1, b"x");
        assert_eq!(archive.len(), 62);
        assert!(archive.starts_with(b"a               1           0     0     100644  1         `\nx\n"));
    }
}
