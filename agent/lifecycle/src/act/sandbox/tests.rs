//! The sandbox of a pod whose node changes meanwhile.

use serde_json::json;

use crate::act::probing::tests::node::{Node, Script, until};
use crate::act::probing::tests::runtime::Fake;
use crate::orders::Order;
use crate::record::ContainerRecord;

/// As with a kubelet: with an empty resolver the pod would run, and find no name.
#[tokio::test]
async fn a_pod_waits_for_the_nodes_resolver_configuration_and_the_event_names_the_file() {
    let runtime = Fake::new(1);
    let spec = json!({"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]});
    let node = Node::start(spec, ContainerRecord::default(), runtime.clone(), Script::default()).await;
    until("its container is seen", || node.shown().is_some()).await;
    let file = node.dir().join("resolv.conf");
    std::fs::remove_file(&file).unwrap();
    runtime.lose_sandbox();
    node.orders.send(Order::Look).unwrap();
    let trouble =
        || node.pod().map(|pod| format!("{} {}", pod.reason.clone(), pod.message)).unwrap_or_default();
    let named = file.display().to_string();
    until("the pod says why", || trouble().contains(&named)).await;
    assert!(trouble().starts_with("FailedCreatePodSandBox Failed to create pod sandbox: "), "{}", trouble());
    assert!(!runtime.calls().iter().any(|call| call.starts_with("run ")), "{:?}", runtime.calls());
    std::fs::write(&file, "nameserver 192.0.2.53\n").unwrap();
    until("it is tried again", || runtime.calls().iter().any(|call| call.starts_with("run "))).await;
}

#[tokio::test]
async fn the_nodes_resolver_configuration_is_read_for_every_sandbox() {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let node = Node::start(spec, ContainerRecord::default(), Fake::new(1), Script::default()).await;
    let file = node.dir().join("resolv.conf");
    for server in ["192.0.2.53", "192.0.2.54"] {
        std::fs::write(&file, format!("nameserver {server}\n")).unwrap();
        let config = super::config(&node.state, 0).await.unwrap();
        assert_eq!(config.dns_config.unwrap().servers, [server]);
    }
}
