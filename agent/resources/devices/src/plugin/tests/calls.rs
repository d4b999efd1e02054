//! The calls to a plugin that has registered.

use tonic::Status;

use super::*;

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn answered() {
    let mut node = Node::start().await;
    let (fake, plugin) = node.registered("v.com/gpu", Script::good(&["a", "b", "c"])).await;
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
async fn not_made_where_the_plugin_does_not_want_them() {
    let mut node = Node::start().await;
    let script = Script { options: api::DevicePluginOptions::default(), ..Script::good(&["a"]) };
    let (fake, plugin) = node.registered("v.com/gpu", script).await;
    assert_eq!(plugin.preferred(ids(&["a"]), vec![], 1).await.unwrap(), [""; 0]);
    plugin.pre_start(ids(&["a"])).await.unwrap();
    assert_eq!(fake.calls(), ["GetDevicePluginOptions()", "ListAndWatch()"]);
}

/// What each call fails with, as its text after the call's name.
async fn failures(plugin: &Plugin) -> [String; 3] {
    let whom = plugin.whom().to_string();
    let (preferred, allocate, pre_start) = tokio::join!(
        plugin.preferred(ids(&["a"]), vec![], 1),
        plugin.allocate(ids(&["a"])),
        plugin.pre_start(ids(&["a"]))
    );
    let preferred = preferred.unwrap_err().to_string();
    let (allocate, pre_start) = (allocate.unwrap_err().to_string(), pre_start.unwrap_err().to_string());
    [("GetPreferredAllocation", preferred), ("Allocate", allocate), ("PreStartContainer", pre_start)].map(
        |(call, text)| {
            let start = format!("{whom}: {call}: ");
            text.strip_prefix(&start).unwrap_or_else(|| panic!("{text} after {start}")).to_owned()
        },
    )
}

#[tokio::test]
async fn refused() {
    let mut node = Node::start().await;
    let no = || Status::internal("out of luck");
    let script = Script::good(&["a"])
        .refuses("GetPreferredAllocation", no())
        .refuses("Allocate", no())
        .refuses("PreStartContainer", no());
    let (fake, plugin) = node.registered("v.com/gpu", script).await;
    assert_eq!(plugin.whom().to_string(), format!("device plugin of v.com/gpu at {}", fake.socket.display()));
    for text in failures(&plugin).await {
        assert!(text.starts_with("out of luck ("), "{text}");
    }
    // It is well otherwise.
    fake.script(|script| script.does.clear());
    plugin.allocate(ids(&["a"])).await.unwrap();
    node.silence().await;
}

#[tokio::test]
async fn never_answered() {
    let mut node = Node::with_limit(Duration::from_secs(2)).await;
    let script =
        Script::good(&["a"]).hangs("GetPreferredAllocation").hangs("Allocate").hangs("PreStartContainer");
    let (_fake, plugin) = node.registered("v.com/gpu", script).await;
    for text in failures(&plugin).await {
        assert_eq!(text, "no answer within 2 s");
    }
    node.silence().await;
}

#[tokio::test]
async fn answers_for_other_than_one_container() {
    let mut node = Node::start().await;
    let (fake, plugin) = node.registered("v.com/gpu", Script { answers: 0, ..Script::good(&["a"]) }).await;
    let text = plugin.allocate(ids(&["a"])).await.unwrap_err().to_string();
    assert!(text.ends_with("Allocate: no containers in the answer, expected 1"), "{text}");
    // No preference.
    assert_eq!(plugin.preferred(ids(&["a"]), vec![], 1).await.unwrap(), [""; 0]);
    fake.script(|script| script.answers = 3);
    let text = plugin.allocate(ids(&["a"])).await.unwrap_err().to_string();
    assert!(text.ends_with("Allocate: 3 containers in the answer, expected 1"), "{text}");
}

#[tokio::test]
async fn the_plugin_dies_during_one() {
    let mut node = Node::with_limit(Duration::from_secs(60)).await;
    let (mut fake, plugin) = node.registered("v.com/gpu", Script::good(&["a"]).hangs("Allocate")).await;
    let under_way = tokio::spawn({
        let plugin = plugin.clone();
        async move { plugin.allocate(ids(&["a"])).await }
    });
    fixture::until("Allocate comes", || fake.calls().len() == 3).await;
    fake.kill();
    let text = under_way.await.unwrap().unwrap_err().to_string();
    assert!(text.starts_with(&format!("{}: Allocate: ", plugin.whom())), "{text}");
    node.stopped().await;
    // Another one at the same path is not this one.
    let other = Fake::start(&fake.socket, Script::good(&["a"]));
    assert!(matches!(plugin.allocate(ids(&["a"])).await, Err(PluginError::Ended { call: "Allocate", .. })));
    assert_eq!(other.calls(), [""; 0]);
}
