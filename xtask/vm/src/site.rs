//! What all guests of a run share.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::assets;
use super::error::VmError;
use super::guest::Guest;
use super::initramfs::Programs;
use super::prepare::{self, Prepared};
use super::{initramfs, interrupt, matrix};
use xtask_common::layout::Layout;

/// Ready to boot guests. Its temporary files go with it.
#[derive(Debug)]
pub struct Site<'a> {
    /// The workspace.
    pub layout: &'a Layout,
    /// QEMU, kernels and disks.
    pub prepared: Prepared,
    /// The archive of our programs.
    pub programs: PathBuf,
    temp: TempDir,
}

impl<'a> Site<'a> {
    /// Gets what `guests` need, and packs the programs, which must be built. From now on Ctrl-C is noted, not
    /// deadly.
    ///
    /// # Errors
    /// When QEMU or every kernel is missing, or packing fails.
    pub fn new(layout: &'a Layout, guests: &[Guest], update: bool, busybox: bool) -> Result<Self, VmError> {
        Self::with(layout, guests, Programs::Tests, update, busybox)
    }

    /// As [`Self::new`], with the programs of a bench.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_bench(layout: &'a Layout, guests: &[Guest]) -> Result<Self, VmError> {
        Self::with(layout, guests, Programs::Bench, false, false)
    }

    /// As [`Self::new`], with the programs of a soak test, and with Kubernetes' own if it needs a `cluster`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_soak(layout: &'a Layout, guests: &[Guest], cluster: bool) -> Result<Self, VmError> {
        let programs = if cluster { Programs::ClusterSoak } else { Programs::Soak };
        Self::with(layout, guests, programs, false, false)
    }

    /// As [`Self::new`], with the programs of a node of a cluster.
    ///
    /// # Errors
    /// As [`Self::new`], and without network plugins for its pods.
    pub fn for_nodes(layout: &'a Layout, guests: &[Guest]) -> Result<Self, VmError> {
        Self::with(layout, guests, Programs::Node, false, false)
    }

    fn with(
        layout: &'a Layout,
        guests: &[Guest],
        programs: Programs,
        update: bool,
        busybox: bool,
    ) -> Result<Self, VmError> {
        let prepared = prepare::prepare(layout, guests, update, busybox)?;
        interrupt::catch();
        let temp = matrix::temporary_folder(&assets::folder(layout))?;
        let programs = initramfs::programs(layout, programs, prepared.busybox.as_deref(), temp.path())?;
        Ok(Self { layout, prepared, programs, temp })
    }

    /// Where temporary files go.
    pub fn temp(&self) -> &Path {
        self.temp.path()
    }

    /// The guests that can't be booted, and why.
    pub fn missing(&self) -> impl Iterator<Item = (Guest, String)> {
        self.prepared.missing.iter().map(|(guest, error)| (*guest, super::error::chain(error)))
    }
}
