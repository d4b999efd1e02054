//! Everything that is made of one binary.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nodewarden_dist::archive::{self, Effort};
use nodewarden_dist::contents::{self, Format};
use nodewarden_dist::elf::{self, Needs};
use nodewarden_dist::generated::Generated;
use nodewarden_dist::provenance::{self, Material};
use nodewarden_dist::{Release, Tree, chart, deb, image, rpm, sbom};
use xtask_common::files::{self, FileError};
use xtask_common::layout::Layout;
use xtask_common::process;

use super::{DistRunError, step, symbols};
use crate::setup::debian_root::{C_LIBRARY, DebianRoot, IMAGE_BASE};

/// Files by name, in order.
pub struct Made {
    /// Name and content.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Where the loader finds each library of the image, and its place in Debian's packages.
const IMAGE_LIBRARIES: [(&str, &str); 6] = [
    ("/lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
    ("/lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
    ("/lib/x86_64-linux-gnu/libm.so.6", "usr/lib/x86_64-linux-gnu/libm.so.6"),
    ("/lib/x86_64-linux-gnu/libdl.so.2", "usr/lib/x86_64-linux-gnu/libdl.so.2"),
    ("/lib/x86_64-linux-gnu/libpthread.so.0", "usr/lib/x86_64-linux-gnu/libpthread.so.0"),
    ("/lib/x86_64-linux-gnu/libgcc_s.so.1", "usr/lib/x86_64-linux-gnu/libgcc_s.so.1"),
];

impl Made {
    /// Makes everything of `binary`, which has debug information.
    ///
    /// # Errors
    /// When the binary needs too new a C library, is too large or does not run; when something can't be made.
    pub fn of(layout: &Layout, release: &Release, binary: &[u8]) -> Result<Self, DistRunError> {
        let scratch = layout.dist().join("scratch");
        files::remove(&scratch)?;
        files::create_folder(&scratch.join("pages"))?;

        let mut progress = step(3, "symbols and texts", "splitting");
        let (program, symbols) = symbols::split(layout, binary, &scratch)?;
        let needs = Needs::of(&program)?;
        needs.check(elf::NEWEST_C_LIBRARY)?;
        elf::check_size(&program)?;
        let path = scratch.join("nodewarden");
        executable(&path)?;
        let generated = Generated::by(&path, &scratch.join("pages"))?;
        let c_library = needs.c_library().unwrap_or("no C library").to_owned();
        progress.end(&format!("{} bytes, needs {c_library}", program.len()));

        let mut progress = step(4, "packages and image", "compressing");
        let version = release.package_version()?;
        let effort = Effort::Best;
        let mut made = Self { files: BTreeMap::new() };
        let tree = contents::of(Format::Deb, &program, &generated, effort)?;
        made.add(deb::file_name(release)?, deb::package(release, &tree, &needs, effort)?);
        let tree = contents::of(Format::Rpm, &program, &generated, effort)?;
        made.add(rpm::file_name(release)?, rpm::package(release, &tree, &needs, effort)?);
        let time = release.seconds()?;
        let pack = |tree: &Tree, prefix: &str| archive::gzip(&archive::tar(tree, prefix, time)?, effort);
        let folder = format!("nodewarden-{version}/");
        made.add(format!("nodewarden-{version}-x86_64.tar.gz"), pack(&tree, &folder)?);
        let mut debug = Tree::default();
        debug.file(symbols::SYMBOLS, symbols);
        made.add(format!("nodewarden-{version}-x86_64-debug.tar.gz"), pack(&debug, &folder)?);
        made.add(chart::file_name(), chart::package(release, effort)?);
        made.add(format!("nodewarden-{}-manifests.yaml", release.version), plain_manifests());
        let base = image::base_layer(libraries(layout)?);
        let layers = [("Debian's C library", &base), ("nodewarden", &image::program_layer(&program))];
        let image = image::pack(release, &format!("nodewarden:{}", release.version), &layers, effort)?;
        made.add(format!("nodewarden-{version}-image.tar"), image.archive);
        made.add(format!("nodewarden-{version}-image.digest"), format!("{}\n", image.digest).into_bytes());
        progress.end_timed();

        let mut progress = step(5, "bill of materials, provenance, digests", "asking cargo");
        let bill = bill(layout, release)?;
        made.add(format!("nodewarden-{version}.cdx.json"), format!("{bill:#}\n").into_bytes());
        let (materials, compiler) = materials(layout)?;
        let subjects: Vec<_> =
            made.files.iter().map(|(name, data)| (name.as_str(), data.as_slice())).collect();
        let statement = provenance::make(release, &subjects, &materials, &compiler)?;
        made.add(format!("nodewarden-{version}.intoto.json"), format!("{statement:#}\n").into_bytes());
        let sums = made.files.iter().map(|(name, data)| format!("{}  {name}\n", archive::sha256(data)));
        let sums: String = sums.collect();
        made.add("SHA256SUMS".to_owned(), sums.into_bytes());
        progress.end_timed();
        files::remove(&scratch)?;
        Ok(made)
    }

    fn add(&mut self, name: String, data: Vec<u8>) {
        self.files.insert(name, data);
    }

    /// The names of files that are not the same in both.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let names =
            self.files.keys().chain(other.files.keys().filter(|name| !self.files.contains_key(*name)));
        names.filter(|name| self.files.get(*name) != other.files.get(*name)).cloned().collect()
    }
}

/// The manifests for those without Helm: what the chart says with its defaults.
fn plain_manifests() -> Vec<u8> {
    include_bytes!("../../../deploy/daemonset.yaml").to_vec()
}

fn executable(path: &Path) -> Result<(), FileError> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .map_err(FileError::of("make executable", path))
}

/// The libraries of the image, by the path where the loader looks for them.
fn libraries(layout: &Layout) -> Result<Vec<(String, Vec<u8>)>, FileError> {
    let root = IMAGE_BASE.folder(layout);
    IMAGE_LIBRARIES.iter().map(|(at, from)| Ok(((*at).to_owned(), files::read(&root.join(from))?))).collect()
}

/// The bill of materials of the binary and of the kernel programs in it.
fn bill(layout: &Layout, release: &Release) -> Result<serde_json::Value, DistRunError> {
    let mut cargo = layout.cargo();
    cargo.args(["metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"]);
    let metadata = process::capture(&mut cargo)?;
    let lock = files::read(&layout.root.join("Cargo.lock"))?;
    let roots = ["nodewarden", "nodewarden-ebpf"];
    Ok(sbom::make(release, &metadata, &String::from_utf8_lossy(&lock), &roots)?)
}

/// What the build took in besides the source, and the compiler's version.
fn materials(layout: &Layout) -> Result<(Vec<Material>, String), DistRunError> {
    let lock = files::read(&layout.root.join("Cargo.lock"))?;
    let mut materials = vec![Material {
        uri: "Cargo.lock".to_owned(),
        digest: Some(("sha256".to_owned(), archive::sha256(&lock))),
    }];
    let roots: [(&DebianRoot, &str); 2] = [(&C_LIBRARY, "bullseye"), (&IMAGE_BASE, "trixie")];
    for (root, suite) in roots {
        for own in root.packages(layout)? {
            let uri = format!("pkg:deb/debian/{}@{}?arch=amd64&distro={suite}", own.name, own.version);
            materials.push(Material { uri, digest: Some(("sha256".to_owned(), own.digest)) });
        }
    }
    let compiler = process::capture(layout.command("rustc").arg("--version"))?.trim().to_owned();
    Ok((materials, compiler))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(files: &[(&str, &str)]) -> Made {
        Made {
            files: files.iter().map(|(name, data)| ((*name).to_owned(), data.as_bytes().to_vec())).collect(),
        }
    }

    #[test]
    fn differences_are_files_that_are_missing_or_other() {
        let first = made(&[("a", "1"), ("b", "2"), ("c", "3")]);
        assert!(first.differences(&made(&[("a", "1"), ("b", "2"), ("c", "3")])).is_empty());
        assert_eq!(first.differences(&made(&[("a", "1"), ("b", "x"), ("d", "4")])), ["b", "c", "d"]);
    }
}
