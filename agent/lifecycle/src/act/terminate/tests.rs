use serde_json::json;

use crate::act::probing::tests::node::{Node, Script, until};
use crate::act::probing::tests::runtime::Fake;
use crate::fixture::at;
use crate::orders::{Order, Report};
use crate::record::{ContainerRecord, Ending};
use crate::set_aside::tests::Immutable;

/// The review's scenario: a privileged pod leaves a file that cannot be removed.
#[tokio::test]
async fn an_end_does_not_wait_for_volumes_that_cannot_be_removed() {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let mut node = Node::start(spec, ContainerRecord::default(), Fake::new(0), Script::default()).await;
    until("it runs", || node.shown().is_some()).await;
    let pod_dir = node.dir().join("pods/u");
    let Some(immutable) = Immutable::make(&pod_dir.join("volumes/a/file")) else { return };
    let ending = Ending { since: at(0), grace_seconds: 0, why: "its manifest is gone".into() };
    node.orders.send(Order::End(ending)).unwrap();
    node.runtime.let_end();
    let reported = tokio::time::timeout(std::time::Duration::from_secs(20), node.reports.recv()).await;
    assert!(matches!(reported, Ok(Some(Report::Gone { uid })) if uid == "u"), "the next pod may start");
    assert!(!pod_dir.exists());
    let shown = node.state.env.set_aside.shown();
    assert_eq!(shown.len(), 1);
    assert!(shown[0].1.contains("Operation not permitted"), "{shown:?}");
    drop(immutable);
}
