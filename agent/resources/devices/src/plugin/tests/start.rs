//! Start and end of the servers.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::*;

#[tokio::test]
async fn stale_sockets_are_removed_and_a_new_one_is_created() {
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

    let (send, _events) = channel();
    let running = PluginServer::start(&settings, send.clone()).await.unwrap();
    assert!(!plugins.join("gpu.sock").exists());
    assert!(plugins.join("kubelet_internal_checkpoint").exists() && plugins.join("DEPRECATION").exists());
    assert!(settings.registry_dir().is_dir());
    let reported = inotify.read_events().unwrap().into_iter().map(|e| (e.mask, e.name.unwrap()));
    // Under that name it is made ready, see `Claim::bind_in_place`.
    let reported: Vec<_> = reported.filter(|(_, name)| name != "kubelet.sock.new").collect();
    let socket = (AddWatchFlags::IN_CREATE, "kubelet.sock".into());
    assert_eq!(reported.last(), Some(&socket), "made, and after the old ones were removed: {reported:?}");
    let path = plugins.join("kubelet.sock");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);

    // A second server would take the plugins from the first.
    let error = PluginServer::start(&settings, send).await.unwrap_err().to_string();
    assert!(error.contains("another nodewarden agent"), "{error}");
    assert!(path.exists());
    drop(running);
    assert!(!path.exists());
}

#[tokio::test]
async fn the_socket_of_a_running_kubelet_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let settings = DeviceSettings { kubelet_dir: dir.path().to_owned(), ..DeviceSettings::default() };
    fs::create_dir_all(settings.plugin_dir()).unwrap();
    let _kubelet = UnixListener::bind(settings.plugin_dir().join("kubelet.sock")).unwrap();
    let _plugin = UnixListener::bind(settings.plugin_dir().join("gpu.sock")).unwrap();
    let (send, _events) = channel();
    assert!(matches!(PluginServer::start(&settings, send).await, Err(PluginError::Socket(_))));
    assert!(UnixStream::connect(settings.plugin_dir().join("gpu.sock")).is_ok(), "its plugins' sockets stay");
}

#[tokio::test]
async fn dropping_the_servers_ends_calls_and_events() {
    let mut fixture = Fixture::with_limit(Duration::from_secs(60)).await;
    let (fake, plugin) = fixture.registered("v.com/gpu", Script::good(&["a"]).hangs("Allocate")).await;
    let under_way = tokio::spawn({
        let plugin = plugin.clone();
        async move { plugin.allocate(vec!["a".into()]).await }
    });
    fixture::until("Allocate comes", || fake.calls().contains(&"Allocate(a)".to_owned())).await;
    let Fixture { plugins, mut events, .. } = fixture;
    drop(plugins);
    assert!(matches!(under_way.await.unwrap(), Err(PluginError::Ended { call: "Allocate", .. })));
    assert!(matches!(plugin.pre_start(vec![]).await, Err(PluginError::Ended { .. })));
    fake.list(vec![]);
    let end = tokio::time::timeout(SOON, events.recv()).await.unwrap();
    assert!(end.is_none(), "no event comes any more: {end:?}");
}
