//! What device plugins send: their messages, and the HTTP/2 connections that carry these.

use std::path::Path;

use nodewarden_devices::fuzzing;
use nodewarden_proto::deviceplugin::v1beta1 as api;
use nodewarden_proto::pluginregistration::v1::PluginInfo;
use prost::Message;

/// A message of a device plugin. The first byte says which.
pub fn device_plugin(input: &[u8]) {
    let Some((which, input)) = input.split_first() else { return };
    match which % 4 {
        0 => {
            let Ok(list) = api::ListAndWatchResponse::decode(input) else { return };
            let sent = list.devices.len();
            let (ids, problems) = fuzzing::device_list(list);
            assert!(ids.len() <= sent && problems.len() <= 17);
            assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "each once and in order: {ids:?}");
        }
        1 => {
            let Ok(request) = api::RegisterRequest::decode(input) else { return };
            let dir = Path::new("/var/lib/kubelet/device-plugins");
            if let Some(socket) = fuzzing::register(request, dir) {
                assert_eq!(socket.parent(), Some(dir), "{}", socket.display());
                assert!(socket.file_name().is_some());
            }
        }
        2 => {
            let Ok(info) = PluginInfo::decode(input) else { return };
            let dir = Path::new("/var/lib/kubelet");
            if let Some(socket) = fuzzing::plugin_info(info, &dir.join("plugins_registry/x.sock"), dir) {
                assert!(socket.starts_with(dir) && socket != dir, "{}", socket.display());
                assert!(!socket.components().any(|part| part.as_os_str() == ".."), "{}", socket.display());
            }
        }
        _ => {
            let injection = fuzzing::injection(input);
            let mut paths: Vec<&String> = injection.mounts.iter().map(|(path, _, _)| path).collect();
            let mounts = paths.len();
            paths.sort();
            paths.dedup();
            assert_eq!(paths.len(), mounts, "each path is mounted once");
        }
    }
}

/// A connection of a plugin: what the server gets does not depend on how the bytes come.
pub fn http2(input: &[u8]) {
    let whole = fuzzing::http2(input, usize::MAX);
    for piece in [1, 7, 100] {
        assert!(fuzzing::http2(input, piece) == whole, "{piece} bytes at a time");
    }
    assert!(whole.len() <= 2 * input.len());
}
