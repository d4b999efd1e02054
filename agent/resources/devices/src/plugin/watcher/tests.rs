//! Plugins that are found by their sockets.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::super::fixture::{FakePlugin, Script, until};
use super::super::tests::Fixture;

fn registry(fixture: &Fixture, name: &str) -> PathBuf {
    fixture.settings.registry_dir().join(name)
}

/// The script of a plugin for this resource.
fn of(resource: &str) -> Script {
    let mut script = Script::good(&["a"]);
    script.info.name = resource.into();
    script
}

/// A change of the script.
type Change = fn(&mut Script);

/// How often the plugin was notified of a successful registration, and the errors.
async fn notified(fake: &FakePlugin, times: usize) -> (usize, Vec<String>) {
    until("it is notified of the result", || fake.notified().len() >= times).await;
    let notified = fake.notified();
    let good = notified.iter().filter(|status| status.plugin_registered).count();
    (good, notified.into_iter().map(|status| status.error).filter(|error| !error.is_empty()).collect())
}

#[tokio::test]
async fn a_plugin_is_registered_while_its_socket_exists() {
    let mut fixture = Fixture::start().await;
    let path = registry(&fixture, "gpu.sock");
    let fake = FakePlugin::start(&path, of("v.com/gpu"));
    let plugin = fixture.registration().await;
    assert_eq!((plugin.resource(), &plugin.address().socket), ("v.com/gpu", &path));
    assert_eq!(fixture.devices().await.2.len(), 1);
    assert_eq!(notified(&fake, 1).await, (1, vec![]));
    plugin.allocate(vec!["a".into()]).await.unwrap();

    fs::remove_file(&path).unwrap();
    let (resource, generation, reason) = fixture.stopped().await;
    assert_eq!((resource.as_str(), generation), ("v.com/gpu", plugin.generation()));
    assert_eq!(reason, "its registration socket is gone");

    let fake = FakePlugin::start(&path, of("v.com/gpu"));
    assert!(fixture.registration().await.generation() > generation);
    fixture.devices().await;
    // Replaced by a rename: the path always had a socket.
    let again = FakePlugin::start(&registry(&fixture, ".new"), of("v.com/gpu"));
    fs::rename(&again.socket, &path).unwrap();
    let (_, before, _) = fixture.stopped().await;
    let plugin = fixture.registration().await;
    assert!(plugin.generation() > before);
    fixture.devices().await;
    assert_eq!((notified(&fake, 1).await.0, notified(&again, 1).await.0), (1, 1));
}

#[tokio::test]
async fn sockets_in_subdirectories_are_found_but_not_hidden_ones() {
    let mut fixture = Fixture::start().await;
    for dir in ["deep/deeper", ".hidden"] {
        fs::create_dir_all(registry(&fixture, dir)).unwrap();
    }
    let hidden = [".hidden/x.sock", ".x.sock"]
        .map(|name| FakePlugin::start(&registry(&fixture, name), of(&format!("v.com/{}", name.len()))));
    fs::write(registry(&fixture, "file"), "").unwrap();
    let _deep = FakePlugin::start(&registry(&fixture, "deep/deeper/gpu.sock"), of("v.com/deep"));
    assert_eq!(fixture.registration().await.resource(), "v.com/deep");
    fixture.devices().await;
    fs::remove_dir_all(registry(&fixture, "deep")).unwrap();
    assert_eq!(fixture.stopped().await.0, "v.com/deep");
    assert!(hidden.iter().all(|fake| fake.calls().is_empty()));
    fixture.expect_no_event().await;
}

#[tokio::test]
async fn a_plugin_may_name_another_socket_for_its_calls() {
    let mut fixture = Fixture::start().await;
    let served = fixture.settings.kubelet_dir.join("plugins");
    fs::create_dir_all(&served).unwrap();
    let server = FakePlugin::start(&served.join("csi.sock"), Script::good(&["a"]));
    let mut script = of("v.com/gpu");
    script.info.endpoint = server.socket.to_str().unwrap().to_owned();
    let fake = FakePlugin::start(&registry(&fixture, "gpu-reg.sock"), script);
    let plugin = fixture.registration().await;
    fixture.devices().await;
    assert_eq!(notified(&fake, 1).await, (1, vec![]));
    assert_eq!(fake.calls(), ["GetInfo()", "NotifyRegistrationStatus()"]);
    plugin.allocate(vec!["a".into()]).await.unwrap();
    assert!(server.calls().contains(&"Allocate(a)".to_owned()));
    fs::remove_file(&fake.socket).unwrap();
    fixture.stopped().await;
}

#[tokio::test]
async fn an_invalid_plugin_is_notified_of_the_reason() {
    let mut fixture = Fixture::start().await;
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
        let fake = FakePlugin::start(&registry(&fixture, "p.sock"), script);
        let (what, reason) = fixture.refused().await;
        assert!(what.ends_with("p.sock") && reason.contains(says), "{what}: {reason}");
        assert_eq!(notified(&fake, 1).await, (0, vec![reason]));
    }
    // The plugin is not asked again.
    tokio::time::sleep(super::socket::FIRST_PAUSE * 2).await;
    fixture.expect_no_event().await;
}

#[tokio::test]
async fn a_failed_registration_is_tried_again() {
    let mut fixture = Fixture::with_limit(Duration::from_secs(2)).await;
    let mut fake = FakePlugin::start(&registry(&fixture, "p.sock"), of("v.com/gpu").hangs("GetInfo"));
    let (_, reason) = fixture.refused().await;
    assert!(reason.ends_with("p.sock: GetInfo: no answer within 2 s"), "{reason}");
    // The same failure is reported once.
    until("it is asked again", || fake.calls().len() >= 2).await;
    fake.script(|script| script.misbehaviour.clear());
    fixture.registration().await;
    fixture.devices().await;
    assert_eq!(notified(&fake, 1).await, (1, vec![]));
    // The plugin dies; its socket stays, but no server listens.
    fake.kill();
    fixture.stopped().await;
    let (_, reason) = fixture.refused().await;
    assert!(reason.contains("Connection refused"), "{reason}");
    let _again = FakePlugin::start(&fake.socket, of("v.com/gpu"));
    fixture.registration().await;
}

#[tokio::test]
async fn a_stream_that_ends_is_opened_again() {
    let mut fixture = Fixture::start().await;
    let fake = FakePlugin::start(&registry(&fixture, "p.sock"), of("v.com/gpu"));
    let first = fixture.registration().await;
    fixture.devices().await;
    fake.end_lists();
    fixture.stopped().await;
    fake.list(vec![]);
    assert!(fixture.registration().await.generation() > first.generation());
    assert_eq!(fixture.devices().await.2, []);
}

#[tokio::test]
async fn a_plugin_that_hangs_delays_no_other() {
    let mut fixture = Fixture::with_limit(Duration::from_secs(60)).await;
    let hanging = FakePlugin::start(&registry(&fixture, "a.sock"), of("v.com/a").hangs("GetInfo"));
    until("it is asked", || !hanging.calls().is_empty()).await;
    let silent =
        FakePlugin::start(&registry(&fixture, "b.sock"), of("v.com/b").hangs("NotifyRegistrationStatus"));
    assert_eq!(fixture.registration().await.resource(), "v.com/b");
    fixture.devices().await;
    assert_eq!(notified(&silent, 1).await, (1, vec![]));
    let started = std::time::Instant::now();
    let _good = FakePlugin::start(&registry(&fixture, "c.sock"), of("v.com/c"));
    assert_eq!(fixture.registration().await.resource(), "v.com/c");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_directory_created_again_is_watched_again() {
    let mut fixture = Fixture::start().await;
    fs::remove_dir(fixture.settings.registry_dir()).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    fs::create_dir(fixture.settings.registry_dir()).unwrap();
    let _fake = FakePlugin::start(&registry(&fixture, "p.sock"), of("v.com/gpu"));
    fixture.registration().await;
}

#[tokio::test]
async fn of_two_plugins_for_one_resource_the_later_stays() {
    let mut fixture = Fixture::start().await;
    let first = FakePlugin::start(&registry(&fixture, "p.sock"), of("v.com/gpu"));
    fixture.registration().await;
    fixture.devices().await;
    notified(&first, 1).await;
    let (_second, plugin) = fixture.registered("v.com/gpu", Script::good(&["b"])).await;
    // The first plugin does not register again.
    tokio::time::sleep(super::socket::FIRST_PAUSE * 2).await;
    fixture.expect_no_event().await;
    plugin.allocate(vec!["b".into()]).await.unwrap();
    // Its end does not matter either.
    fs::remove_file(&first.socket).unwrap();
    fixture.expect_no_event().await;
}
