//! Which registrations at `kubelet.sock` are accepted and refused.

use nodewarden_proto::deviceplugin::v1beta1::DevicePluginOptions;
use tonic::{Code, Status};

use super::*;

#[tokio::test]
async fn errors_are_returned_to_the_plugin_and_sent_as_events() {
    let mut fixture = Fixture::with_limit(Duration::from_millis(200)).await;
    let dir = fixture.plugin_dir();
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
        let (_, reason) = fixture.refused().await;
        assert_eq!(reason, status.message());
    }
    fixture.expect_no_event().await;
}

#[tokio::test]
async fn a_plugin_may_create_its_socket_after_registering() {
    let mut fixture = Fixture::with_limit(Duration::from_secs(10)).await;
    let dir = fixture.plugin_dir();
    let registering = tokio::spawn(async move { register(&dir, request("v.com/gpu", "late.sock")).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let _fake = fixture.plugin("late.sock", Script::good(&["a"]));
    registering.await.unwrap().unwrap();
    assert_eq!(fixture.registration().await.resource(), "v.com/gpu");
    assert_eq!(fixture.devices().await.2, [("a".to_owned(), Health::Healthy)]);
}

#[tokio::test]
async fn options_come_from_the_plugin_else_from_the_request() {
    let mut fixture = Fixture::with_limit(Duration::from_secs(2)).await;
    let none = Script { options: DevicePluginOptions::default(), ..Script::good(&[]) };
    let in_request =
        DevicePluginOptions { pre_start_required: true, get_preferred_allocation_available: false };
    let from_request = Options { pre_start_required: true, preferred_allocation: false };
    const CALL: &str = "GetDevicePluginOptions";
    for (script, in_request, expected) in [
        (none.clone(), Some(in_request), Some(Options::default())),
        (none.clone().refuses(CALL, Status::unimplemented("what?")), Some(in_request), Some(from_request)),
        (none.clone().refuses(CALL, Status::unimplemented("what?")), None, Some(Options::default())),
        (none.clone().refuses(CALL, Status::internal("no")), Some(in_request), Some(from_request)),
        (none.clone().refuses(CALL, Status::internal("no")), None, None),
        (none.clone().hangs(CALL), Some(in_request), Some(from_request)),
        (none.clone().hangs(CALL), None, None),
    ] {
        let fake = fixture.plugin("p.sock", script);
        let request = api::RegisterRequest { options: in_request, ..request("v.com/gpu", "p.sock") };
        let result = register(&fixture.plugin_dir(), request).await;
        match expected {
            Some(options) => {
                result.unwrap();
                assert_eq!(fixture.registration().await.options(), options);
                fixture.devices().await;
                drop(fake);
                fixture.stopped().await;
            }
            None => {
                let text = result.unwrap_err().message().to_owned();
                assert!(text.contains(": GetDevicePluginOptions: "), "{text}");
                assert_eq!(fixture.refused().await.1, text);
            }
        }
    }
}

#[tokio::test]
async fn a_plugin_that_hangs_delays_no_other() {
    let mut fixture = Fixture::with_limit(Duration::from_secs(60)).await;
    let dir = fixture.plugin_dir();
    // One plugin hangs while it registers, one in its list, one in a call.
    let _first = fixture.plugin("first.sock", Script::good(&["a"]).hangs("GetDevicePluginOptions"));
    let at = dir.clone();
    let hanging = tokio::spawn(async move { register(&at, request("v.com/first", "first.sock")).await });
    let _second = fixture.plugin("second.sock", Script::good(&["a"]).hangs("ListAndWatch"));
    register(&dir, request("v.com/second", "second.sock")).await.unwrap();
    assert_eq!(fixture.registration().await.resource(), "v.com/second");
    let (third, plugin) = fixture.registered("v.com/third", Script::good(&["a"]).hangs("Allocate")).await;
    let called = tokio::spawn(async move { plugin.allocate(vec!["a".into()]).await });
    fixture::until("Allocate comes", || !third.calls().is_empty()).await;

    let started = std::time::Instant::now();
    let (fake, plugin) = fixture.registered("v.com/good", Script::good(&["a"])).await;
    plugin.allocate(vec!["a".into()]).await.unwrap();
    fake.list(vec![]);
    assert_eq!(fixture.devices().await.0, "v.com/good");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(!hanging.is_finished() && !called.is_finished());
    hanging.abort();
    called.abort();
}

#[tokio::test]
async fn registrations_are_counted_by_resource() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    // The recorder of this thread, on which the fixture's tasks run too.
    let _counting = metrics::set_default_local_recorder(&recorder);
    let mut fixture = Fixture::start().await;
    let (fake, _plugin) = fixture.registered("v.com/gpu", Script::good(&["a"])).await;
    register(&fixture.plugin_dir(), request("v.com/gpu", fake.name())).await.unwrap();
    // A text from outside never becomes a label.
    register(&fixture.plugin_dir(), request("gpu", fake.name())).await.unwrap_err();
    let shown = recorder.handle().render();
    let counts: Vec<_> = shown.lines().filter(|l| l.starts_with("kubelet_device_plugin_")).collect();
    assert_eq!(counts, [r#"kubelet_device_plugin_registration_total{resource_name="v.com/gpu"} 2"#]);
}

/// Names that come and go without end neither fill the memory nor the metrics.
#[tokio::test]
async fn only_so_many_resources_are_registered() {
    let mut fixture = Fixture::with_limit(Duration::from_secs(10)).await;
    let dir = fixture.plugin_dir();
    let fake = fixture.plugin("many.sock", Script::good(&["a"]));
    for n in 0..MOST_RESOURCES {
        register(&dir, request(&format!("v.com/{n}"), fake.name())).await.unwrap();
    }
    let status = register(&dir, request("v.com/more", fake.name())).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(
        status.message().contains("v.com/more") && status.message().contains("256 resources"),
        "{status:?}"
    );
    register(&dir, request("v.com/7", fake.name())).await.expect("one that is known");
    let refusal = loop {
        if let PluginEvent::Refused { what, .. } = fixture.event().await {
            break what;
        }
    };
    assert!(refusal.starts_with("v.com/more"), "{refusal}");
}
