//! What has to be there before guests can boot. (Stand-in.)

use std::collections::BTreeMap;
use std::path::PathBuf;

use thiserror::Error;

use super::assets::{Family, Kernel, Qemu, Root};
use super::guest::{Guest, family_name};
use super::job::Layout as CgroupLayout;
use crate::layout::Layout;

#[derive(Debug, Error)]
pub enum PrepareError {
    #[error("this machine is no x86-64 Linux")]
    Platform,
}

/// All of it.
#[derive(Debug)]
pub struct Prepared {
    pub qemu: Qemu,
    pub kernels: BTreeMap<Family, Kernel>,
    pub root: Option<Root>,
    pub scratch: PathBuf,
    pub busybox: Option<PathBuf>,
    pub guests: Vec<Guest>,
    pub missing: Vec<(Guest, PrepareError)>,
}

pub fn prepare(
    _layout: &Layout,
    guests: &[Guest],
    _update: bool,
    shell: bool,
) -> Result<Prepared, PrepareError> {
    let mut kernels = BTreeMap::new();
    for guest in guests {
        let name = family_name(guest.family);
        kernels.insert(
            guest.family,
            Kernel {
                family: guest.family,
                release: name.into(),
                vmlinux: format!("/tmp/vm/vmlinux-{name}").into(),
                modules: "/dev/null".into(),
            },
        );
    }
    let root = guests
        .iter()
        .any(|guest| guest.layout == CgroupLayout::Systemd)
        .then(|| Root { image: "/tmp/vm/root.ext4".into(), description: "?".into() });
    Ok(Prepared {
        qemu: Qemu { folder: "/tmp/vm/qemu".into(), version: "?".into() },
        kernels,
        root,
        scratch: "/tmp/vm-boot/scratch.ext4".into(),
        busybox: shell.then(|| "/usr/bin/busybox".into()),
        guests: guests.to_vec(),
        missing: vec![],
    })
}
