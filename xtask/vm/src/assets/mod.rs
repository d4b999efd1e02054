//! What a virtual machine is made of: QEMU, Debian's kernels, a Debian root with systemd, an empty disk.
//!
//! All of it is downloaded by an apt of our own, unpacked (never installed) into `target/vm` and kept there
//! by version, so a second run needs no network.

pub mod archive;
mod busybox;
mod cache;
pub mod cpio;
mod error;
mod ext4;
mod kernel;
pub mod libraries;
mod qemu;
mod root;
mod strip;

use std::path::PathBuf;

use xtask_common::layout::Layout;

pub use {
    archive::{Archive, ArchiveError},
    busybox::busybox,
    cache::Lookup,
    error::AssetError,
    ext4::scratch,
    kernel::kernel,
    qemu::qemu,
    root::root,
};

/// A family of kernels: the newest Debian cloud kernel of it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Debian 11's: the oldest that the README names.
    V5_10,
    /// Debian 12's: the only one here with every v1 controller.
    V6_1,
    /// Debian 13's.
    V6_12,
    /// The newest that Debian has.
    V7,
}

impl Family {
    /// Whether it is the oldest or the newest.
    pub fn is_extreme(self) -> bool {
        matches!(self, Self::V5_10 | Self::V7)
    }
}

/// An unpacked QEMU.
#[derive(Debug, Clone)]
pub struct Qemu {
    /// Where its packages are unpacked.
    pub folder: PathBuf,
    /// Its Debian version.
    pub version: String,
}

/// An unpacked kernel.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Which one this is the newest of.
    pub family: Family,
    /// What `uname -r` says in the guest.
    pub release: String,
    /// The ELF image that QEMU boots.
    pub vmlinux: PathBuf,
    /// A newc cpio archive: `/modules/*.ko`, unpacked, and `/modules/order`, their names (no suffix) a line
    /// each in an order in which they can be loaded.
    pub modules: PathBuf,
}

/// A Debian root file system.
#[derive(Debug, Clone)]
pub struct Root {
    /// An ext4 image; booted with `snapshot=on`, so it never changes.
    pub image: PathBuf,
    /// What is in it: Debian release, systemd, containerd and runc versions.
    pub description: String,
}

/// The folder of everything here.
pub fn folder(layout: &Layout) -> PathBuf {
    layout.target.join("vm")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// What a first run downloads is there at once in a second; `cargo test -p nodewarden-vm -- --ignored
    /// real_assets`.
    #[test]
    #[ignore = "downloads a hundred megabytes"]
    fn real_assets_are_made_once() {
        let layout = Layout::find(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let get = || {
            let qemu = qemu(&layout, Lookup::Cached).unwrap();
            let kernels = [Family::V5_10, Family::V6_1, Family::V6_12, Family::V7]
                .map(|family| kernel(&layout, family, Lookup::Cached).unwrap());
            let root = root(&layout, Lookup::Cached).unwrap();
            let busybox = busybox(&layout, Lookup::Cached).unwrap();
            (qemu, kernels, root, busybox, scratch(&layout).unwrap())
        };
        println!("{:#?}", get());
        let started = Instant::now();
        get();
        assert!(started.elapsed() < Duration::from_millis(100), "{:?}", started.elapsed());
    }
}
