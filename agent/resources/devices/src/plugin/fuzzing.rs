//! Entry points for fuzzing: what device plugins send.

use std::path::Path;

use nodewarden_proto::deviceplugin::v1beta1 as api;
use nodewarden_proto::pluginregistration::v1::PluginInfo;

use super::accept::authority::Frames;
use super::listing;
use super::request::{self, PluginRegistration};

pub(crate) fn from_register(request: api::RegisterRequest, dir: &Path) -> Option<PluginRegistration> {
    request::from_register(request, dir).ok()
}

pub(crate) fn from_info(info: PluginInfo, socket: &Path, kubelet_dir: &Path) -> Option<PluginRegistration> {
    request::from_info(info, socket, kubelet_dir).ok()
}

/// The ids of the devices in a plugin's list, and the problems of the list.
pub fn device_list(list: api::ListAndWatchResponse) -> (Vec<String>, Vec<String>) {
    let (devices, problems) = listing::devices(list);
    (devices.into_iter().map(|device| device.id).collect(), problems)
}

/// What the HTTP/2 server gets of a connection with these bytes, which come `piece` at a time.
pub fn http2(bytes: &[u8], piece: usize) -> Vec<u8> {
    let (mut frames, mut out) = (Frames::default(), Vec::new());
    for part in bytes.chunks(piece.max(1)) {
        frames.take(part, &mut out);
    }
    out
}
