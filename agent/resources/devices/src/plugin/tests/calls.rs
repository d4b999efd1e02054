//! The calls to a plugin that has registered.

use tonic::Status;

use super::*;

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn calls_are_answered() {
    let mut fixture = Fixture::start().await;
    let (fake, plugin) = fixture.registered("v.com/gpu", Script::good(&["a", "b", "c"])).await;
    assert_eq!(plugin.options(), Options { pre_start_required: true, preferred_allocation: true });
    let preferred = plugin.preferred(ids(&["a", "b", "c"]), ids(&["c"]), 2).await.unwrap();
    assert_eq!(preferred, ["c", "b"]);
    let response = plugin.allocate(ids(&["b", "c"])).await.unwrap();
    assert_eq!(response.envs["DEVICES"], "b,c");
    plugin.pre_start(ids(&["b", "c"])).await.unwrap();
    assert_eq!(
        fake.calls(),
        [
            "GetDevicePluginOptions()",
            "ListAndWatch()",
            "GetPreferredAllocation(2 of a,b,c with c)",
            "Allocate(b,c)",
            "PreStartContainer(b,c)",
        ]
    );
}

#[tokio::test]
async fn optional_calls_are_only_made_if_the_plugin_asks_for_them() {
    let mut fixture = Fixture::start().await;
    let script = Script { options: api::DevicePluginOptions::default(), ..Script::good(&["a"]) };
    let (fake, plugin) = fixture.registered("v.com/gpu", script).await;
    assert_eq!(plugin.preferred(ids(&["a"]), vec![], 1).await.unwrap(), [""; 0]);
    plugin.pre_start(ids(&["a"])).await.unwrap();
    assert_eq!(fake.calls(), ["GetDevicePluginOptions()", "ListAndWatch()"]);
}

/// The error texts of the three calls, without plugin and call name.
async fn failures(plugin: &Plugin) -> [String; 3] {
    let address = plugin.address().to_string();
    let (preferred, allocate, pre_start) = tokio::join!(
        plugin.preferred(ids(&["a"]), vec![], 1),
        plugin.allocate(ids(&["a"])),
        plugin.pre_start(ids(&["a"]))
    );
    let preferred = preferred.unwrap_err().to_string();
    let (allocate, pre_start) = (allocate.unwrap_err().to_string(), pre_start.unwrap_err().to_string());
    [("GetPreferredAllocation", preferred), ("Allocate", allocate), ("PreStartContainer", pre_start)].map(
        |(call, text)| {
            let start = format!("{address}: {call}: ");
            text.strip_prefix(&start).unwrap_or_else(|| panic!("{text} after {start}")).to_owned()
        },
    )
}

#[tokio::test]
async fn refused_calls_are_errors() {
    let mut fixture = Fixture::start().await;
    let no = || Status::internal("out of luck");
    let script = Script::good(&["a"])
        .refuses("GetPreferredAllocation", no())
        .refuses("Allocate", no())
        .refuses("PreStartContainer", no());
    let (fake, plugin) = fixture.registered("v.com/gpu", script).await;
    assert_eq!(
        plugin.address().to_string(),
        format!("device plugin of v.com/gpu at {}", fake.socket.display())
    );
    for text in failures(&plugin).await {
        assert!(text.starts_with("out of luck ("), "{text}");
    }
    // The registration itself is not affected.
    fake.script(|script| script.misbehaviour.clear());
    plugin.allocate(ids(&["a"])).await.unwrap();
    fixture.expect_no_event().await;
}

#[tokio::test]
async fn calls_without_an_answer_time_out() {
    let mut fixture = Fixture::with_limit(Duration::from_secs(2)).await;
    let script =
        Script::good(&["a"]).hangs("GetPreferredAllocation").hangs("Allocate").hangs("PreStartContainer");
    let (_fake, plugin) = fixture.registered("v.com/gpu", script).await;
    for text in failures(&plugin).await {
        assert_eq!(text, "no answer within 2 s");
    }
    fixture.expect_no_event().await;
}

#[tokio::test]
async fn an_answer_for_other_than_one_container_is_malformed() {
    let mut fixture = Fixture::start().await;
    let (fake, plugin) = fixture.registered("v.com/gpu", Script { answers: 0, ..Script::good(&["a"]) }).await;
    let text = plugin.allocate(ids(&["a"])).await.unwrap_err().to_string();
    assert!(text.ends_with("Allocate: no containers in the answer, expected 1"), "{text}");
    // No preference.
    assert_eq!(plugin.preferred(ids(&["a"]), vec![], 1).await.unwrap(), [""; 0]);
    fake.script(|script| script.answers = 3);
    let text = plugin.allocate(ids(&["a"])).await.unwrap_err().to_string();
    assert!(text.ends_with("Allocate: 3 containers in the answer, expected 1"), "{text}");
}

#[tokio::test]
async fn a_call_fails_when_the_plugin_dies() {
    let mut fixture = Fixture::with_limit(Duration::from_secs(60)).await;
    let (mut fake, plugin) = fixture.registered("v.com/gpu", Script::good(&["a"]).hangs("Allocate")).await;
    let under_way = tokio::spawn({
        let plugin = plugin.clone();
        async move { plugin.allocate(ids(&["a"])).await }
    });
    fixture::until("Allocate comes", || fake.calls().len() == 3).await;
    fake.kill();
    let text = under_way.await.unwrap().unwrap_err().to_string();
    assert!(text.starts_with(&format!("{}: Allocate: ", plugin.address())), "{text}");
    fixture.stopped().await;
    // Another plugin at the same path is not this registration.
    let other = FakePlugin::start(&fake.socket, Script::good(&["a"]));
    assert!(matches!(plugin.allocate(ids(&["a"])).await, Err(PluginError::Ended { call: "Allocate", .. })));
    assert_eq!(other.calls(), [""; 0]);
}
