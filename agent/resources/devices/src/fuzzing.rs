//! Entry points for the fuzz targets of `tests/fuzz`: parsers that are private otherwise. Only with the
//! feature `fuzzing`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nodewarden_model::DevicesPerNuma;
use nodewarden_pods::spec::DeviceInjection;
use nodewarden_proto::deviceplugin::v1beta1 as api;
use nodewarden_proto::pluginregistration::v1::PluginInfo;

use crate::Allocation;
use crate::checkpoint::Checkpoint;

pub use crate::enforce::devices_list;
pub use crate::plugin::fuzzing::{device_list, http2};

/// Reads the kubelet's checkpoint file. What is accepted is written and read again: both written forms.
/// `None` when the file is refused.
pub fn checkpoint(bytes: &[u8]) -> Option<[Vec<u8>; 2]> {
    written_twice(&Checkpoint::parse(bytes).ok()?)
}

/// As [`checkpoint`], whatever the checksum in the file is.
pub fn checkpoint_unverified(bytes: &[u8]) -> Option<[Vec<u8>; 2]> {
    written_twice(&Checkpoint::unverified(bytes)?)
}

fn written_twice(read: &Checkpoint) -> Option<[Vec<u8>; 2]> {
    let first = read.to_bytes();
    let again = Checkpoint::parse(&first).map(|again| again.to_bytes());
    Some([first, again.unwrap_or_else(|error| error.to_string().into_bytes())])
}

/// The socket of an accepted `Register` call of a plugin whose sockets are in `dir`.
pub fn register(request: api::RegisterRequest, dir: &Path) -> Option<PathBuf> {
    Some(crate::plugin::fuzzing::from_register(request, dir)?.socket)
}

/// The socket of an accepted plugin that was found at `socket` in a directory of `kubelet_dir`.
pub fn plugin_info(info: PluginInfo, socket: &Path, kubelet_dir: &Path) -> Option<PathBuf> {
    Some(crate::plugin::fuzzing::from_info(info, socket, kubelet_dir)?.socket)
}

/// What a container gets by this encoded answer of a plugin to Allocate, for one device.
pub fn injection(response: &[u8]) -> DeviceInjection {
    let devices = DevicesPerNuma::from([(-1, BTreeSet::from(["d".to_owned()]))]);
    let allocation = Allocation { devices, response: Some(response.to_vec()) };
    crate::injection::injection_of(&BTreeMap::from([("example.com/d".to_owned(), allocation)]))
}
