//! Debian's cloud kernels: the newest of a family, its image unpacked for a direct boot, and the modules a
//! guest needs.

mod choice;
mod image;
mod modules;
mod unpack;

use std::fs;
use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::cache::{Asset, Cache, Lookup, in_name};
use super::root::short;
use super::{AssetError, Family, Kernel};
use xtask_common::debian::{self, Apt, Suite};
use xtask_common::files::{self, FileError};
use xtask_common::layout::Layout;
use xtask_common::progress::Progress;

pub use image::ImageError;
pub use modules::ModuleError;

/// Modules that guests use, if the kernel has them as modules: disks and the network, what containers and the
/// tests mount, and the format of quotas on ext4. What they depend on comes along.
const WANTED: [&str; 10] = [
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "overlay",
    "veth",
    "bridge",
    "loop",
    "squashfs",
    "fuse",
    "quota_v2",
];
const ADVICE: &str = "let this machine reach its Debian mirror, then run again";
/// Files in a kernel's folder.
const VMLINUX: &str = "vmlinux";
const MODULES: &str = "modules.cpio";
const RELEASE: &str = "release";

impl Family {
    /// As users write it: `5.10`, `6.1`, `6.12` or `7`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V5_10 => "5.10",
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::V7 => "7",
        }
    }

    /// Where Debian keeps its newest.
    fn suites(self) -> &'static [Suite] {
        match self {
            // The archive keeps the packages of its last point release; newer ones of the security archive
            // are listed there but no longer all kept.
            Self::V5_10 => &[Suite::Named("bullseye")],
            Self::V6_1 => &[Suite::Named("bookworm"), Suite::Security("bookworm")],
            Self::V6_12 => &[Suite::Named("trixie"), Suite::Security("trixie")],
            Self::V7 => &[Suite::Named("trixie-backports"), Suite::Named("sid")],
        }
    }
}

/// The newest Debian cloud kernel of `family`.
///
/// # Errors
/// When it can't be downloaded or unpacked.
pub fn kernel(layout: &Layout, family: Family, lookup: Lookup) -> Result<Kernel, AssetError> {
    let (link, title) = (link(family), format!("Debian kernel {}", family.name()));
    let doing = "downloading Debian's packages, about 20 seconds";
    let asset = Asset { link: &link, title: &title, doing, advice: ADVICE };
    let folder = Cache::of(layout)
        .ensure(asset, lookup, |cache, progress| from_debian(layout, family, cache, progress))?;
    let release = String::from_utf8_lossy(&files::read(&folder.join(RELEASE))?).into_owned();
    Ok(Kernel { family, release, vmlinux: folder.join(VMLINUX), modules: folder.join(MODULES) })
}

/// The beginning of the names of a family's links.
fn links(family: Family) -> String {
    format!("kernel-{}-", family.name())
}

/// With other modules a kernel has another link, so that one packed with fewer is not found.
fn link(family: Family) -> String {
    format!("{}{}", links(family), modules_name())
}

/// A short name of the modules that are packed.
fn modules_name() -> String {
    short(&format!("{WANTED:?}"))
}

fn from_debian(
    layout: &Layout,
    family: Family,
    cache: &Cache,
    progress: &mut Progress,
) -> Result<PathBuf, AssetError> {
    let archive = debian::Archive::of_this_machine()?;
    let apt = Apt::at(layout, cache.scrap("apt"))?;
    apt.update(&archive.source_lines(family.suites()), progress)?;
    let names = apt.names(&choice::pattern(family))?;
    let rows = match names.is_empty() {
        true => Vec::new(),
        false => apt.versions(&names.iter().map(String::as_str).collect::<Vec<_>>())?,
    };
    let none = || AssetError::NoKernel { family: family.name().to_owned(), packages: names.len() };
    let chosen = choice::newest(&rows, family).ok_or_else(none)?;
    let name = format!("linux-{}_{}-{}", chosen.release, in_name(&chosen.version), modules_name());
    let folder = cache.folder(&name, |folder| {
        let debs = apt.download(&chosen.packages, progress)?;
        progress.begin("unpacking");
        let unpacked = folder.join("packages");
        apt.unpack(&debs, &unpacked, progress)?;
        let vmlinux = folder.join(VMLINUX);
        unpack_image(&unpacked, &chosen.release, &vmlinux)?;
        pack_modules(layout, &unpacked, &chosen.release, &folder.join(MODULES))?;
        files::write(&folder.join(RELEASE), &chosen.release)?;
        Ok(files::remove(&unpacked)?)
    })?;
    cache.remove_others(&links(family), &link(family))?;
    Ok(folder)
}

fn unpack_image(unpacked: &Path, release: &str, vmlinux: &Path) -> Result<(), AssetError> {
    let places = [format!("boot/vmlinuz-{release}"), format!("usr/lib/modules/{release}/vmlinuz")];
    let path = first_that_exists(unpacked, &places)?;
    let image = files::read(&path)?;
    let elf = image::vmlinux(&image).map_err(|source| AssetError::Image { path, source })?;
    Ok(files::write(vmlinux, elf)?)
}

/// Writes the archive that [`Kernel::modules`] describes.
fn pack_modules(layout: &Layout, unpacked: &Path, release: &str, to: &Path) -> Result<(), AssetError> {
    let places = [format!("usr/lib/modules/{release}"), format!("lib/modules/{release}")];
    let mut files = Vec::new();
    list_files(&first_that_exists(unpacked, &places)?, &mut files)?;
    let modules = modules::load(&files, &WANTED)?;
    let mut archive = Archive::new(layout);
    let mut order = String::new();
    for module in modules {
        archive.file(module.data, &format!("/modules/{}.ko", module.name), 0o644);
        order += &format!("{}\n", module.name);
    }
    archive.file(order, "/modules/order", 0o644);
    Ok(archive.write_to(to)?)
}

fn first_that_exists(folder: &Path, places: &[String]) -> Result<PathBuf, AssetError> {
    let found = places.iter().map(|place| folder.join(place)).find(|path| path.exists());
    found.ok_or_else(|| AssetError::Missing(places.first().map_or(folder.into(), |place| folder.join(place))))
}

/// Every file below `folder`.
fn list_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), FileError> {
    for entry in fs::read_dir(folder).map_err(FileError::of("read", folder))? {
        let entry = entry.map_err(FileError::of("read", folder))?;
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list_files(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
