//! Plugins that are found by their sockets.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::super::fixture::{Fake, Script, until};
use super::super::tests::Node;

fn registry(node: &Node, name: &str) -> PathBuf {
    node.settings.registry_dir().join(name)
}

/// A plugin for this resource.
fn of(resource: &str) -> Script {
    let mut script = Script::good(&["a"]);
    script.info.name = resource.into();
    script
}

/// Of what a plugin says of itself.
type Change = fn(&mut Script);

/// How often its registration was told to be good, and the errors.
async fn told(fake: &Fake, times: usize) -> (usize, Vec<String>) {
    until("it is told what came of its registration", || fake.notified().len() >= times).await;
    let notified = fake.notified();
    let good = notified.iter().filter(|status| status.plugin_registered).count();
    (good, notified.into_iter().map(|status| status.error).filter(|error| !error.is_empty()).collect())
}

#[tokio::test]
async fn a_life() {
    let mut node = Node::start().await;
    let path = registry(&node, "gpu.sock");
    let fake = Fake::start(&path, of("v.com/gpu"));
    let plugin = node.registration().await;
    assert_eq!((plugin.resource(), &plugin.whom().socket), ("v.com/gpu", &path));
    assert_eq!(node.devices().await.2.len(), 1);
    assert_eq!(told(&fake, 1).await, (1, vec![]));
    plugin.allocate(vec!["a".into()]).await.unwrap();

    fs::remove_file(&path).unwrap();
    let (resource, generation, reason) = node.stopped().await;
    assert_eq!((resource.as_str(), generation), ("v.com/gpu", plugin.generation()));
    assert_eq!(reason, "its registration socket is gone");

    let fake = Fake::start(&path, of("v.com/gpu"));
    assert!(node.registration().await.generation() > generation);
    node.devices().await;
    // Made anew: its path was never seen without a socket.
    let again = Fake::start(&registry(&node, ".new"), of("v.com/gpu"));
    fs::rename(&again.socket, &path).unwrap();
    let (_, before, _) = node.stopped().await;
    let plugin = node.registration().await;
    assert!(plugin.generation() > before);
    node.devices().await;
    assert_eq!((told(&fake, 1).await.0, told(&again, 1).await.0), (1, 1));
}

#[tokio::test]
async fn in_directories_below_but_not_behind_a_dot() {
    let mut node = Node::start().await;
    for dir in ["deep/deeper", ".hidden"] {
        fs::create_dir_all(registry(&node, dir)).unwrap();
    }
    let hidden = [".hidden/x.sock", ".x.sock"]
        .map(|name| Fake::start(&registry(&node, name), of(&format!("v.com/{}", name.len()))));
    fs::write(registry(&node, "file"), "").unwrap();
    let _deep = Fake::start(&registry(&node, "deep/deeper/gpu.sock"), of("v.com/deep"));
    assert_eq!(node.registration().await.resource(), "v.com/deep");
    node.devices().await;
    fs::remove_dir_all(registry(&node, "deep")).unwrap();
    assert_eq!(node.stopped().await.0, "v.com/deep");
    assert!(hidden.iter().all(|fake| fake.calls().is_empty()));
    node.silence().await;
}

#[tokio::test]
async fn its_calls_may_go_to_another_socket() {
    let mut node = Node::start().await;
    let served = node.settings.kubelet_dir.join("plugins");
    fs::create_dir_all(&served).unwrap();
    let server = Fake::start(&served.join("csi.sock"), Script::good(&["a"]));
    let mut script = of("v.com/gpu");
    script.info.endpoint = server.socket.to_str().unwrap().to_owned();
    let fake = Fake::start(&registry(&node, "gpu-reg.sock"), script);
    let plugin = node.registration().await;
    node.devices().await;
    assert_eq!(told(&fake, 1).await, (1, vec![]));
    assert_eq!(fake.calls(), ["GetInfo()", "NotifyRegistrationStatus()"]);
    plugin.allocate(vec!["a".into()]).await.unwrap();
    assert!(server.calls().contains(&"Allocate(a)".to_owned()));
    fs::remove_file(&fake.socket).unwrap();
    node.stopped().await;
}

#[tokio::test]
async fn what_is_refused_is_told_why() {
    let mut node = Node::start().await;
    let changes: [(Change, &str); 4] = [
        (
            |script| script.info.r#type = "CSIPlugin".into(),
            "no handler registered for plugin type \"CSIPlugin\"",
        ),
        (
            |script| script.info.supported_versions = vec!["v1alpha1".into()],
            "not among the plugin's supported versions [\"v1alpha1\"]",
        ),
        (|script| script.info.name = "gpu".into(), "the resource name \"gpu\" is invalid"),
        (|script| script.info.endpoint = "/run/x.sock".into(), "the endpoint \"/run/x.sock\" is invalid"),
    ];
    for (change, says) in changes {
        let mut script = of("v.com/gpu");
        change(&mut script);
        let fake = Fake::start(&registry(&node, "p.sock"), script);
        let (what, reason) = node.refused().await;
        assert!(what.ends_with("p.sock") && reason.contains(says), "{what}: {reason}");
        assert_eq!(told(&fake, 1).await, (0, vec![reason]));
    }
    // It is not asked again.
    tokio::time::sleep(super::socket::FIRST_PAUSE * 2).await;
    node.silence().await;
}

#[tokio::test]
async fn what_fails_is_tried_again() {
    let mut node = Node::with_limit(Duration::from_secs(2)).await;
    let mut fake = Fake::start(&registry(&node, "p.sock"), of("v.com/gpu").hangs("GetInfo"));
    let (_, reason) = node.refused().await;
    assert!(reason.ends_with("p.sock: GetInfo: no answer within 2 s"), "{reason}");
    // The same failure is told once.
    until("it is asked again", || fake.calls().len() >= 2).await;
    fake.script(|script| script.does.clear());
    node.registration().await;
    node.devices().await;
    assert_eq!(told(&fake, 1).await, (1, vec![]));
    // It dies, and its socket is still there, with nobody behind it.
    fake.kill();
    node.stopped().await;
    let (_, reason) = node.refused().await;
    assert!(reason.contains("Connection refused"), "{reason}");
    let _again = Fake::start(&fake.socket, of("v.com/gpu"));
    node.registration().await;
}

#[tokio::test]
async fn a_stream_that_ends_is_opened_again() {
    let mut node = Node::start().await;
    let fake = Fake::start(&registry(&node, "p.sock"), of("v.com/gpu"));
    let first = node.registration().await;
    node.devices().await;
    fake.end_lists();
    node.stopped().await;
    fake.list(vec![]);
    assert!(node.registration().await.generation() > first.generation());
    assert_eq!(node.devices().await.2, []);
}

#[tokio::test]
async fn one_that_hangs_delays_no_other() {
    let mut node = Node::with_limit(Duration::from_secs(60)).await;
    let hanging = Fake::start(&registry(&node, "a.sock"), of("v.com/a").hangs("GetInfo"));
    until("it is asked", || !hanging.calls().is_empty()).await;
    let mute = Fake::start(&registry(&node, "b.sock"), of("v.com/b").hangs("NotifyRegistrationStatus"));
    assert_eq!(node.registration().await.resource(), "v.com/b");
    node.devices().await;
    assert_eq!(told(&mute, 1).await, (1, vec![]));
    let started = std::time::Instant::now();
    let _good = Fake::start(&registry(&node, "c.sock"), of("v.com/c"));
    assert_eq!(node.registration().await.resource(), "v.com/c");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_directory_that_is_made_anew() {
    let mut node = Node::start().await;
    fs::remove_dir(node.settings.registry_dir()).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    fs::create_dir(node.settings.registry_dir()).unwrap();
    let _fake = Fake::start(&registry(&node, "p.sock"), of("v.com/gpu"));
    node.registration().await;
}

#[tokio::test]
async fn the_later_of_two_for_one_resource_stays() {
    let mut node = Node::start().await;
    let first = Fake::start(&registry(&node, "p.sock"), of("v.com/gpu"));
    node.registration().await;
    node.devices().await;
    told(&first, 1).await;
    let (_second, plugin) = node.registered("v.com/gpu", Script::good(&["b"])).await;
    // The first does not take it back.
    tokio::time::sleep(super::socket::FIRST_PAUSE * 2).await;
    node.silence().await;
    plugin.allocate(vec!["b".into()]).await.unwrap();
    // Nor does its end matter.
    fs::remove_file(&first.socket).unwrap();
    node.silence().await;
}
