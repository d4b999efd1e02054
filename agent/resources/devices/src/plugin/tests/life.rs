//! Lists of devices, deaths, and registrations that follow each other.

use std::io::Write;

use super::*;

fn healthy(ids: &[&str]) -> Vec<(String, Health)> {
    ids.iter().map(|id| (id.to_string(), Health::Healthy)).collect()
}

#[tokio::test]
async fn each_list_replaces_the_one_before() {
    let mut node = Node::start().await;
    let (fake, plugin) = node.registered("v.com/gpu", Script::good(&["a", "b"])).await;
    fake.list(vec![fixture::device("b"), fixture::device("c")]);
    let told = node.devices().await;
    assert_eq!(told, ("v.com/gpu".into(), plugin.generation(), healthy(&["b", "c"]), vec![]));
    // The same in another order says nothing new.
    fake.list(vec![fixture::device("c"), fixture::device("b")]);
    node.silence().await;
    fake.list(vec![]);
    assert_eq!(node.devices().await.2, []);
}

#[tokio::test]
async fn garbage_is_told_with_the_list() {
    let mut node = Node::start().await;
    let (fake, _plugin) = node.registered("v.com/gpu", Script::good(&["a"])).await;
    let sick = api::Device { health: "Meh".into(), ..fixture::device("s") };
    fake.list(vec![fixture::device(""), fixture::device("d"), fixture::device("d"), sick]);
    let (_, _, devices, problems) = node.devices().await;
    assert_eq!(devices, [("d".to_owned(), Health::Healthy), ("s".to_owned(), Health::Unhealthy)]);
    assert_eq!(problems.len(), 3, "{problems:?}");
    fake.list(vec![fixture::device("a")]);
    assert_eq!(node.devices().await.3, [""; 0], "and forgiven");
}

#[tokio::test]
async fn a_list_may_be_long_but_not_endless() {
    let mut node = Node::with_limit(SOON).await;
    let (fake, _plugin) = node.registered("v.com/gpu", Script::good(&["a"])).await;
    let ids = |n: usize| (0..n).map(|n| fixture::device(&format!("{n:060}"))).collect();
    fake.list(ids(100_000));
    assert_eq!(node.devices().await.2.len(), 100_000, "7 MiB");
    fake.list(ids(300_000));
    let (_, _, reason) = node.stopped().await;
    assert!(reason.starts_with("ListAndWatch: ") && reason.contains("message length too large"), "{reason}");
}

#[tokio::test]
async fn silence_is_not_death() {
    let mut node = Node::with_limit(Duration::from_secs(2)).await;
    let fake = node.fake("p.sock", Script { devices: None, ..Script::good(&[]) });
    register(&node.plugin_dir(), request("v.com/gpu", "p.sock")).await.unwrap();
    node.registration().await;
    tokio::time::sleep(Duration::from_millis(2200)).await;
    node.silence().await;
    fake.list(vec![fixture::device("a")]);
    assert_eq!(node.devices().await.2, healthy(&["a"]));
}

#[tokio::test]
async fn death_and_return() {
    let mut node = Node::start().await;
    let (mut fake, plugin) = node.registered("v.com/gpu", Script::good(&["a"])).await;
    fake.kill();
    let (resource, generation, reason) = node.stopped().await;
    assert_eq!((resource.as_str(), generation), ("v.com/gpu", plugin.generation()));
    assert!(reason.starts_with("ListAndWatch: "), "{reason}");
    let (fake, again) = node.registered("v.com/gpu", Script::good(&["a"])).await;
    assert!(again.generation() > plugin.generation());
    fake.end_lists();
    let (_, generation, reason) = node.stopped().await;
    assert_eq!(
        (generation, reason.as_str()),
        (again.generation(), "ListAndWatch: the plugin has ended its list of devices")
    );
    node.silence().await;
}

/// Its server speaks no HTTP/2 at all.
#[tokio::test]
async fn noise() {
    let mut node = Node::with_limit(Duration::from_secs(5)).await;
    let path = node.plugin_dir().join("noise.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let noise = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // It may be hung up on.
        let _ = stream.write_all(&[0xa5; 4096]);
    });
    let status = register(&node.plugin_dir(), request("v.com/gpu", "noise.sock")).await.unwrap_err();
    assert!(status.message().contains("noise.sock: GetDevicePluginOptions: "), "{status:?}");
    node.refused().await;
    noise.join().unwrap();
}

#[tokio::test]
async fn twice_at_once_the_later_wins() {
    for _ in 0..8 {
        let mut node = Node::start().await;
        let dir = node.plugin_dir();
        let fakes =
            [("1.sock", "one"), ("2.sock", "two")].map(|(name, id)| node.fake(name, Script::good(&[id])));
        let (first, second) = tokio::join!(
            register(&dir, request("v.com/gpu", "1.sock")),
            register(&dir, request("v.com/gpu", "2.sock"))
        );
        // Being overtaken is no failure of the plugin.
        first.unwrap();
        second.unwrap();
        let (mut current, mut listed) = (0, String::new());
        while let Ok(event) = tokio::time::timeout(Duration::from_millis(100), node.events.recv()).await {
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
        // What the older one still says is not heard.
        for (fake, id) in fakes.iter().zip(["one", "two"]) {
            fake.list(vec![fixture::device("new"), fixture::device(id)]);
        }
        assert_eq!(node.devices().await.2, healthy(&["new", &listed]));
        node.silence().await;
    }
}

#[tokio::test]
async fn a_registration_that_fails_disturbs_nobody() {
    let mut node = Node::with_limit(Duration::from_secs(2)).await;
    let (good, plugin) = node.registered("v.com/gpu", Script::good(&["a"])).await;
    let _bad = node.fake("bad.sock", Script::good(&["x"]).hangs("GetDevicePluginOptions"));
    register(&node.plugin_dir(), request("v.com/gpu", "bad.sock")).await.unwrap_err();
    node.refused().await;
    plugin.allocate(vec!["a".into()]).await.unwrap();
    good.list(vec![]);
    assert_eq!(node.devices().await.1, plugin.generation());
}

#[tokio::test]
async fn a_hundred_registrations() {
    let mut node = Node::start().await;
    let (fake, first) = node.registered("v.com/gpu", Script::good(&["a"])).await;
    for _ in 0..100 {
        register(&node.plugin_dir(), request("v.com/gpu", fake.name())).await.unwrap();
    }
    let mut last = first.clone();
    let (mut registrations, mut listed) = (0, 0);
    while registrations < 100 || listed < last.generation() {
        match node.event().await {
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
    node.silence().await;
}
