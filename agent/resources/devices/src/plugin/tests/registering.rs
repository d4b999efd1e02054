//! What is accepted at `kubelet.sock`, and what is not.

use nodewarden_proto::deviceplugin::v1beta1::DevicePluginOptions;
use tonic::{Code, Status};

use super::*;

#[tokio::test]
async fn errors_are_told_to_the_plugin_and_to_the_node() {
    let mut node = Node::with_limit(Duration::from_millis(200)).await;
    let dir = node.plugin_dir();
    std::fs::write(dir.join("file.sock"), "").unwrap();
    drop(std::os::unix::net::UnixListener::bind(dir.join("dead.sock")).unwrap());
    let version = |version: &str| api::RegisterRequest { version: version.into(), ..request("a.com/b", "s") };
    for (request, code, says) in [
        (version("v1alpha1"), Code::InvalidArgument, "requested API version \"v1alpha1\" is not supported"),
        (version(""), Code::InvalidArgument, "requested API version \"\" is not supported"),
        (request("gpu", "s"), Code::InvalidArgument, "the resource name \"gpu\" is invalid"),
        (request("kubernetes.io/gpu", "s"), Code::InvalidArgument, "\"kubernetes.io/gpu\" is invalid"),
        (request("requests.a.com/b", "s"), Code::InvalidArgument, "\"requests.a.com/b\" is invalid"),
        (request("a.com/b", ""), Code::InvalidArgument, "the endpoint \"\" is invalid"),
        (request("a.com/b", "../s"), Code::InvalidArgument, "the endpoint \"../s\" is invalid"),
        (request("a.com/b", "/run/s"), Code::InvalidArgument, "the endpoint \"/run/s\" is invalid"),
        (request("a.com/b", "kubelet.sock"), Code::InvalidArgument, "it is the socket of registrations"),
        (request("a.com/b", "none.sock"), Code::Unavailable, "No such file or directory"),
        (request("a.com/b", "dead.sock"), Code::Unavailable, "Connection refused"),
        (request("a.com/b", "file.sock"), Code::Unavailable, "it is not a socket"),
    ] {
        let status = register(&dir, request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains(says), "{status:?}");
        let (_, reason) = node.refused().await;
        assert_eq!(reason, status.message());
    }
    node.silence().await;
}

#[tokio::test]
async fn its_socket_may_come_after_the_registration() {
    let mut node = Node::with_limit(Duration::from_secs(10)).await;
    let dir = node.plugin_dir();
    let registering = tokio::spawn(async move { register(&dir, request("v.com/gpu", "late.sock")).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let _fake = node.fake("late.sock", Script::good(&["a"]));
    registering.await.unwrap().unwrap();
    assert_eq!(node.registration().await.resource(), "v.com/gpu");
    assert_eq!(node.devices().await.2, [("a".to_owned(), Health::Healthy)]);
}

#[tokio::test]
async fn the_options_are_the_plugins_else_the_requests() {
    let mut node = Node::with_limit(Duration::from_secs(2)).await;
    let none = Script { options: DevicePluginOptions::default(), ..Script::good(&[]) };
    let said = DevicePluginOptions { pre_start_required: true, get_preferred_allocation_available: false };
    let from_request = Options { pre_start_required: true, preferred_allocation: false };
    const CALL: &str = "GetDevicePluginOptions";
    for (script, said, expected) in [
        (none.clone(), Some(said), Some(Options::default())),
        (none.clone().refuses(CALL, Status::unimplemented("what?")), Some(said), Some(from_request)),
        (none.clone().refuses(CALL, Status::unimplemented("what?")), None, Some(Options::default())),
        (none.clone().refuses(CALL, Status::internal("no")), Some(said), Some(from_request)),
        (none.clone().refuses(CALL, Status::internal("no")), None, None),
        (none.clone().hangs(CALL), Some(said), Some(from_request)),
        (none.clone().hangs(CALL), None, None),
    ] {
        let fake = node.fake("p.sock", script);
        let request = api::RegisterRequest { options: said, ..request("v.com/gpu", "p.sock") };
        let result = register(&node.plugin_dir(), request).await;
        match expected {
            Some(options) => {
                result.unwrap();
                assert_eq!(node.registration().await.options(), options);
                node.devices().await;
                drop(fake);
                node.stopped().await;
            }
            None => {
                let text = result.unwrap_err().message().to_owned();
                assert!(text.contains(": GetDevicePluginOptions: "), "{text}");
                assert_eq!(node.refused().await.1, text);
            }
        }
    }
}

#[tokio::test]
async fn one_that_hangs_delays_no_other() {
    let mut node = Node::with_limit(Duration::from_secs(60)).await;
    let dir = node.plugin_dir();
    // One hangs while it registers, one in its list, one is called and hangs.
    let _first = node.fake("first.sock", Script::good(&["a"]).hangs("GetDevicePluginOptions"));
    let at = dir.clone();
    let hanging = tokio::spawn(async move { register(&at, request("v.com/first", "first.sock")).await });
    let _second = node.fake("second.sock", Script::good(&["a"]).hangs("ListAndWatch"));
    register(&dir, request("v.com/second", "second.sock")).await.unwrap();
    assert_eq!(node.registration().await.resource(), "v.com/second");
    let (third, plugin) = node.registered("v.com/third", Script::good(&["a"]).hangs("Allocate")).await;
    let called = tokio::spawn(async move { plugin.allocate(vec!["a".into()]).await });
    fixture::until("Allocate comes", || !third.calls().is_empty()).await;

    let started = std::time::Instant::now();
    let (fake, plugin) = node.registered("v.com/good", Script::good(&["a"])).await;
    plugin.allocate(vec!["a".into()]).await.unwrap();
    fake.list(vec![]);
    assert_eq!(node.devices().await.0, "v.com/good");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(!hanging.is_finished() && !called.is_finished());
    hanging.abort();
    called.abort();
}

#[tokio::test]
async fn counted_by_resource() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    // Of this thread, on which the node's tasks run too.
    let _counting = ::metrics::set_default_local_recorder(&recorder);
    let mut node = Node::start().await;
    let (fake, _plugin) = node.registered("v.com/gpu", Script::good(&["a"])).await;
    register(&node.plugin_dir(), request("v.com/gpu", fake.name())).await.unwrap();
    // Anybody's text is no label.
    register(&node.plugin_dir(), request("gpu", fake.name())).await.unwrap_err();
    let shown = recorder.handle().render();
    let counts: Vec<_> = shown.lines().filter(|l| l.starts_with("kubelet_device_plugin_")).collect();
    assert_eq!(counts, [r#"kubelet_device_plugin_registration_total{resource_name="v.com/gpu"} 2"#]);
}
