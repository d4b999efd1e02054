//! Lists of devices, ends of plugins, and registrations that follow each other.

use std::io::Write;

use super::*;

fn healthy(ids: &[&str]) -> Vec<(String, Health)> {
    ids.iter().map(|id| (id.to_string(), Health::Healthy)).collect()
}

#[tokio::test]
async fn each_list_replaces_the_one_before() {
    let mut fixture = Fixture::start().await;
    let (fake, plugin) = fixture.registered("v.com/gpu", Script::good(&["a", "b"])).await;
    fake.list(vec![fixture::device("b"), fixture::device("c")]);
    let reported = fixture.devices().await;
    assert_eq!(reported, ("v.com/gpu".into(), plugin.generation(), healthy(&["b", "c"]), vec![]));
    // The same devices in another order are no change.
    fake.list(vec![fixture::device("c"), fixture::device("b")]);
    fixture.expect_no_event().await;
    fake.list(vec![]);
    assert_eq!(fixture.devices().await.2, []);
}

#[tokio::test]
async fn errors_of_a_list_are_reported_with_it() {
    let mut fixture = Fixture::start().await;
    let (fake, _plugin) = fixture.registered("v.com/gpu", Script::good(&["a"])).await;
    let unhealthy = api::Device { health: "Meh".into(), ..fixture::device("s") };
    fake.list(vec![fixture::device(""), fixture::device("d"), fixture::device("d"), unhealthy]);
    let (_, _, devices, problems) = fixture.devices().await;
    assert_eq!(devices, [("d".to_owned(), Health::Healthy), ("s".to_owned(), Health::Unhealthy)]);
    assert_eq!(problems.len(), 3, "{problems:?}");
    fake.list(vec![fixture::device("a")]);
    assert_eq!(fixture.devices().await.3, [""; 0], "the next list has no problems");
}

#[tokio::test]
async fn a_list_larger_than_4_mib_ends_the_registration() {
    let mut fixture = Fixture::with_limit(SOON).await;
    let (fake, _plugin) = fixture.registered("v.com/gpu", Script::good(&["a"])).await;
    let ids = |n: usize| (0..n).map(|n| fixture::device(&format!("{n:060}"))).collect();
    fake.list(ids(50_000));
    assert_eq!(fixture.devices().await.2.len(), 50_000, "3.5 MiB");
    fake.list(ids(60_000));
    let (_, _, reason) = fixture.stopped().await;
    assert!(reason.starts_with("ListAndWatch: ") && reason.contains("message length too large"), "{reason}");
}

#[tokio::test]
async fn a_plugin_that_sends_its_list_late_stays_registered() {
    let mut fixture = Fixture::with_limit(Duration::from_secs(2)).await;
    let fake = fixture.plugin("p.sock", Script { devices: None, ..Script::good(&[]) });
    register(&fixture.plugin_dir(), request("v.com/gpu", "p.sock")).await.unwrap();
    fixture.registration().await;
    tokio::time::sleep(Duration::from_millis(2200)).await;
    fixture.expect_no_event().await;
    fake.list(vec![fixture::device("a")]);
    assert_eq!(fixture.devices().await.2, healthy(&["a"]));
}

#[tokio::test]
async fn a_plugin_that_stops_can_register_again() {
    let mut fixture = Fixture::start().await;
    let (mut fake, plugin) = fixture.registered("v.com/gpu", Script::good(&["a"])).await;
    fake.kill();
    let (resource, generation, reason) = fixture.stopped().await;
    assert_eq!((resource.as_str(), generation), ("v.com/gpu", plugin.generation()));
    assert!(reason.starts_with("ListAndWatch: "), "{reason}");
    let (fake, again) = fixture.registered("v.com/gpu", Script::good(&["a"])).await;
    assert!(again.generation() > plugin.generation());
    fake.end_lists();
    let (_, generation, reason) = fixture.stopped().await;
    assert_eq!(
        (generation, reason.as_str()),
        (again.generation(), "ListAndWatch: the plugin has ended its list of devices")
    );
    fixture.expect_no_event().await;
}

/// The plugin's server does not speak HTTP/2.
#[tokio::test]
async fn a_server_without_http2_is_refused() {
    let mut fixture = Fixture::with_limit(Duration::from_secs(5)).await;
    let path = fixture.plugin_dir().join("noise.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let noise = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // The connection may be closed early.
        let _ = stream.write_all(&[0xa5; 4096]);
    });
    let status = register(&fixture.plugin_dir(), request("v.com/gpu", "noise.sock")).await.unwrap_err();
    assert!(status.message().contains("noise.sock: GetDevicePluginOptions: "), "{status:?}");
    fixture.refused().await;
    noise.join().unwrap();
}

#[tokio::test]
async fn of_two_registrations_at_once_the_later_wins() {
    for _ in 0..8 {
        let mut fixture = Fixture::start().await;
        let dir = fixture.plugin_dir();
        let fakes = [("1.sock", "one"), ("2.sock", "two")]
            .map(|(name, id)| fixture.plugin(name, Script::good(&[id])));
        let (first, second) = tokio::join!(
            register(&dir, request("v.com/gpu", "1.sock")),
            register(&dir, request("v.com/gpu", "2.sock"))
        );
        // Being overtaken is not a failure of the plugin.
        first.unwrap();
        second.unwrap();
        let (mut current, mut listed) = (0, String::new());
        while let Ok(event) = tokio::time::timeout(Duration::from_millis(100), fixture.events.recv()).await {
            match event.unwrap() {
                PluginEvent::Registered(plugin) => {
                    assert!(plugin.generation() > current);
                    current = plugin.generation();
                }
                PluginEvent::Devices { generation, devices, .. } => {
                    assert_eq!(generation, current, "nothing of the older one");
                    listed = devices[0].id.clone();
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(current, 2);
        // Lists of the older one are ignored.
        for (fake, id) in fakes.iter().zip(["one", "two"]) {
            fake.list(vec![fixture::device("new"), fixture::device(id)]);
        }
        assert_eq!(fixture.devices().await.2, healthy(&["new", &listed]));
        fixture.expect_no_event().await;
    }
}

#[tokio::test]
async fn a_failed_registration_leaves_the_current_one() {
    let mut fixture = Fixture::with_limit(Duration::from_secs(2)).await;
    let (good, plugin) = fixture.registered("v.com/gpu", Script::good(&["a"])).await;
    let _bad = fixture.plugin("bad.sock", Script::good(&["x"]).hangs("GetDevicePluginOptions"));
    register(&fixture.plugin_dir(), request("v.com/gpu", "bad.sock")).await.unwrap_err();
    fixture.refused().await;
    plugin.allocate(vec!["a".into()]).await.unwrap();
    good.list(vec![]);
    assert_eq!(fixture.devices().await.1, plugin.generation());
}

#[tokio::test]
async fn a_hundred_registrations_of_one_plugin_come_in_order() {
    let mut fixture = Fixture::start().await;
    let (fake, first) = fixture.registered("v.com/gpu", Script::good(&["a"])).await;
    for _ in 0..100 {
        register(&fixture.plugin_dir(), request("v.com/gpu", fake.name())).await.unwrap();
    }
    let mut last = first.clone();
    let (mut registrations, mut listed) = (0, 0);
    while registrations < 100 || listed < last.generation() {
        match fixture.event().await {
            PluginEvent::Registered(plugin) => {
                assert!(plugin.generation() > last.generation());
                (registrations, last) = (registrations + 1, plugin);
            }
            PluginEvent::Devices { generation, devices, .. } => {
                assert_eq!((generation, devices.len()), (last.generation(), 1));
                listed = generation;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(first.allocate(vec!["a".into()]).await, Err(PluginError::Ended { .. })));
    last.allocate(vec!["a".into()]).await.unwrap();
    fixture.expect_no_event().await;
}

/// A plugin that lists more devices than one resource can have is away, with the number in the reason.
#[tokio::test]
async fn too_many_devices_end_the_registration() {
    let mut fixture = Fixture::start().await;
    let (fake, plugin) = fixture.registered("v.com/gpu", Script::good(&["a"])).await;
    fake.list((0..=MOST_DEVICES).map(|n| fixture::device(&n.to_string())).collect());
    let (resource, generation, reason) = fixture.stopped().await;
    assert_eq!((resource.as_str(), generation), ("v.com/gpu", plugin.generation()));
    assert_eq!(reason, "ListAndWatch: a list of 65537 devices: one resource can have 65536");
    fixture.expect_no_event().await;
}

/// A message that would take much more memory decoded than it has bytes.
#[tokio::test]
async fn a_list_that_is_too_long_ends_the_registration() {
    let mut fixture = Fixture::start().await;
    let (fake, _) = fixture.registered("v.com/gpu", Script::good(&["a"])).await;
    fake.list(vec![fixture::device(&"x".repeat(LARGEST_LIST))]);
    let (_, _, reason) = fixture.stopped().await;
    assert!(reason.starts_with("ListAndWatch: ") && reason.contains("too large"), "{reason}");
}
