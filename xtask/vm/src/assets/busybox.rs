//! A static busybox: the shell and commands of guests that a person looks at.

use std::path::PathBuf;

use super::AssetError;
use super::cache::{Asset, Cache, Lookup};
use xtask_common::debian::{Archive, Package, Suite};
use xtask_common::layout::Layout;

const ASSET: Asset<'_> = Asset {
    link: "busybox",
    title: "busybox",
    doing: "downloading Debian's package",
    advice: "let this machine reach its Debian mirror, then run again",
};
/// Where Debian has put it, newest first.
const PLACES: [&str; 2] = ["usr/bin/busybox", "bin/busybox"];

/// The static busybox of this machine's Debian release.
///
/// # Errors
/// When it can't be downloaded.
pub fn busybox(layout: &Layout, lookup: Lookup) -> Result<PathBuf, AssetError> {
    let package = Package { name: "busybox-static".to_owned(), version: None };
    let folder = Cache::of(layout).ensure(ASSET, lookup, |cache, progress| {
        let archive = Archive::of_this_machine()?;
        let unpacked = cache.scrap("busybox-static");
        archive.unpack(layout, &package, &[Suite::Own, Suite::Named("trixie")], &unpacked, progress)?;
        cache.keep("busybox-static", &unpacked)
    })?;
    let found = PLACES.iter().map(|place| folder.join(place)).find(|path| path.exists());
    found.ok_or_else(|| AssetError::Missing(folder.join(PLACES[0])))
}
