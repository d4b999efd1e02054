//! The beginning and the end of the servers.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::*;

#[tokio::test]
async fn stale_sockets_go_and_a_new_one_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let settings = DeviceSettings { kubelet_dir: dir.path().join("kubelet"), ..DeviceSettings::default() };
    let plugins = settings.plugin_dir();
    fs::create_dir_all(&plugins).unwrap();
    fs::write(plugins.join("kubelet_internal_checkpoint"), "precious").unwrap();
    fs::write(plugins.join("DEPRECATION"), "").unwrap();
    drop(UnixListener::bind(plugins.join("kubelet.sock")).unwrap());
    let _alive = UnixListener::bind(plugins.join("gpu.sock")).unwrap();
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
    inotify.add_watch(&plugins, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE).unwrap();

    let (send, _events) = mpsc::unbounded_channel();
    let running = Plugins::start(&settings, send.clone()).await.unwrap();
    assert!(!plugins.join("gpu.sock").exists());
    assert!(plugins.join("kubelet_internal_checkpoint").exists() && plugins.join("DEPRECATION").exists());
    assert!(settings.registry_dir().is_dir());
    let told: Vec<_> =
        inotify.read_events().unwrap().into_iter().map(|e| (e.mask, e.name.unwrap())).collect();
    let socket = (AddWatchFlags::IN_CREATE, "kubelet.sock".into());
    assert_eq!(told.last(), Some(&socket), "made, and after the old ones were removed: {told:?}");
    let path = plugins.join("kubelet.sock");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);

    // A second one would take the plugins away from the first.
    let error = Plugins::start(&settings, send).await.unwrap_err().to_string();
    assert!(error.contains("another nodewarden agent"), "{error}");
    assert!(path.exists());
    drop(running);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_live_kubelet_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let settings = DeviceSettings { kubelet_dir: dir.path().to_owned(), ..DeviceSettings::default() };
    fs::create_dir_all(settings.plugin_dir()).unwrap();
    let _kubelet = UnixListener::bind(settings.plugin_dir().join("kubelet.sock")).unwrap();
    let _plugin = UnixListener::bind(settings.plugin_dir().join("gpu.sock")).unwrap();
    let (send, _events) = mpsc::unbounded_channel();
    assert!(matches!(Plugins::start(&settings, send).await, Err(PluginError::Socket(_))));
    assert!(UnixStream::connect(settings.plugin_dir().join("gpu.sock")).is_ok(), "its plugins' sockets stay");
}

#[tokio::test]
async fn the_end_is_the_end_of_everything() {
    let mut node = Node::with_limit(Duration::from_secs(60)).await;
    let (fake, plugin) = node.registered("v.com/gpu", Script::good(&["a"]).hangs("Allocate")).await;
    let under_way = tokio::spawn({
        let plugin = plugin.clone();
        async move { plugin.allocate(vec!["a".into()]).await }
    });
    fixture::until("Allocate comes", || fake.calls().contains(&"Allocate(a)".to_owned())).await;
    let Node { plugins, mut events, .. } = node;
    drop(plugins);
    assert!(matches!(under_way.await.unwrap(), Err(PluginError::Ended { call: "Allocate", .. })));
    assert!(matches!(plugin.pre_start(vec![]).await, Err(PluginError::Ended { .. })));
    fake.list(vec![]);
    let end = tokio::time::timeout(SOON, events.recv()).await.unwrap();
    assert!(end.is_none(), "nothing is told any more: {end:?}");
}
