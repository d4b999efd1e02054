//! What has to be there before guests can boot: QEMU, their kernels, their disks.

use std::collections::BTreeMap;
use std::path::PathBuf;

use thiserror::Error;

use super::assets::{self, AssetError, Family, Kernel, Lookup, Qemu, Root};
use super::guest::Guest;
use nodewarden_guest_job::Layout as CgroupLayout;
use xtask_common::layout::Layout;

/// Something that guests need is not available.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// QEMU and the kernels are for one kind of machine only.
    #[error(
        "guests are x86-64 and packed from this machine's programs, which are not: it is {os} on {architecture}"
    )]
    Platform {
        /// Rust's name of the system.
        os: &'static str,
        /// Rust's name of the processor.
        architecture: &'static str,
    },
    /// One of Debian's things.
    #[error(transparent)]
    Asset(#[from] AssetError),
}

/// Everything that is available.
#[derive(Debug)]
pub struct Prepared {
    /// The QEMU.
    pub qemu: Qemu,
    /// By family.
    pub kernels: BTreeMap<Family, Kernel>,
    /// If a guest wants one.
    pub root: Option<Root>,
    /// An empty ext4 disk.
    pub scratch: PathBuf,
    /// If a guest wants a shell.
    pub busybox: Option<PathBuf>,
    /// The guests that can be booted.
    pub guests: Vec<Guest>,
    /// Those that can't, and why.
    pub missing: Vec<(Guest, PrepareError)>,
}

/// Gets what `guests` need. Without a kernel or root only the guests that need it are left out.
///
/// # Errors
/// When there is nothing to boot guests with.
pub fn prepare(
    layout: &Layout,
    guests: &[Guest],
    update: bool,
    shell: bool,
) -> Result<Prepared, PrepareError> {
    let (os, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    if (os, architecture) != ("linux", "x86_64") {
        return Err(PrepareError::Platform { os, architecture });
    }
    let lookup = Lookup::of(update);
    let mut prepared = Prepared {
        qemu: assets::qemu(layout, lookup)?,
        kernels: BTreeMap::new(),
        root: None,
        scratch: assets::scratch(layout)?,
        busybox: shell.then(|| assets::busybox(layout, lookup)).transpose()?,
        guests: Vec::new(),
        missing: Vec::new(),
    };
    for guest in guests {
        match prepared.add(layout, *guest, lookup) {
            Ok(()) => prepared.guests.push(*guest),
            Err(error) => prepared.missing.push((*guest, error)),
        }
    }
    Ok(prepared)
}

impl Prepared {
    /// What guests are made of, in a line.
    pub fn description(&self) -> String {
        let kernels = self.kernels.values().map(|kernel| format!("Linux {}", kernel.release));
        let parts = std::iter::once(format!("QEMU {}", self.qemu.version)).chain(kernels);
        parts.chain(self.root.iter().map(|root| root.description.clone())).collect::<Vec<_>>().join("; ")
    }

    fn add(&mut self, layout: &Layout, guest: Guest, lookup: Lookup) -> Result<(), PrepareError> {
        if !self.kernels.contains_key(&guest.family) {
            let kernel = assets::kernel(layout, guest.family, lookup)?;
            self.kernels.insert(kernel.family, kernel);
        }
        if guest.layout == CgroupLayout::Systemd && self.root.is_none() {
            self.root = Some(assets::root(layout, lookup)?);
        }
        Ok(())
    }
}
