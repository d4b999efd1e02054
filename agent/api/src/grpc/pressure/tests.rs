//! The calls over a real socket.

use nodewarden_proto::nodewarden::v1 as proto;
use proto::nodewarden_client::NodewardenClient;
use proto::pressure_client::PressureClient;
use tonic::Code;
use tonic::transport::Channel;

use crate::grpc::fixture::Running;
use nodewarden_model::fixture::Node;

async fn serving(node: Node) -> (Running, PressureClient<Channel>) {
    let running = Running::serving(node).await;
    let client = PressureClient::new(crate::grpc::client::channel(&running.socket).await.unwrap());
    (running, client)
}

#[tokio::test]
async fn the_nodes_conditions_and_signals() {
    let (_running, mut client) = serving(Node::under_pressure()).await;
    let answer = client.get_pressure(proto::GetPressureRequest {}).await.unwrap().into_inner();
    let pressure = answer.pressure.unwrap();
    let conditions: Vec<_> = pressure.conditions.iter().map(|own| (own.name.as_str(), own.status)).collect();
    assert_eq!(conditions, [("MemoryPressure", false), ("DiskPressure", true), ("PIDPressure", false)]);
    assert_eq!(pressure.conditions[1].since.unwrap().seconds, 1_700_000_040);
    assert_eq!((pressure.signals[1].grace_ms, pressure.signals[1].hard), (Some(90_000), false));
    assert_eq!(pressure.watching.len(), 2);
}

#[tokio::test]
async fn the_status_has_it_where_something_is_watched() {
    for (node, conditions) in [(Node::under_pressure(), Some(3)), (Node::default(), None)] {
        let running = Running::serving(node).await;
        let mut client = NodewardenClient::new(crate::grpc::client::channel(&running.socket).await.unwrap());
        let status = client.get_status(proto::GetStatusRequest {}).await.unwrap().into_inner();
        assert_eq!(status.pressure.map(|own| own.conditions.len()), conditions);
    }
}

#[tokio::test]
async fn decisions_of_the_node_and_of_a_pod() {
    let (_running, mut client) = serving(Node::under_pressure()).await;
    for (pod, considered, limit, numbers, total, only_considered) in [
        ("", false, 0, vec![7, 6, 5], 3, 0),
        ("", false, 2, vec![7, 6], 3, 0),
        ("shop/cart-5d9c", false, 0, vec![7], 1, 1),
        ("8c5e", false, 0, vec![7], 1, 1),
        ("cart-5d9c", true, 0, vec![7, 6], 2, 1),
        ("cart-5d9c", true, 1, vec![7], 2, 1),
        ("web", false, 5, vec![6], 1, 1),
        ("idle", false, 0, vec![], 0, 1),
    ] {
        let request = proto::ListDecisionsRequest { pod: pod.into(), considered, limit };
        let answer = client.list_decisions(request).await.unwrap().into_inner();
        let found: Vec<_> = answer.decisions.iter().map(|own| own.number).collect();
        assert_eq!((found, answer.total, answer.considered), (numbers, total, only_considered), "{pod}");
    }
}

#[tokio::test]
async fn an_unknown_pod_and_one_without_decisions_get_different_answers() {
    let (_running, mut client) = serving(Node::default().with_decisions(Vec::new())).await;
    let asked = |pod: &str| proto::ListDecisionsRequest { pod: pod.into(), ..Default::default() };
    for here in ["8c5e", "cart-5d9c", "shop/cart-5d9c", ""] {
        let answer = client.list_decisions(asked(here)).await.unwrap().into_inner();
        assert_eq!((answer.total, answer.considered), (0, 0), "{here}");
    }
    for nowhere in ["cart", "other/cart-5d9c", "/"] {
        let refused = client.list_decisions(asked(nowhere)).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "{nowhere}");
        assert!(refused.message().contains(nowhere), "{refused}");
    }
}

#[tokio::test]
async fn simulated_and_refused() {
    let (_running, mut client) = serving(Node::under_pressure()).await;
    let request = |signal: &str, threshold: &str| proto::SimulateRequest {
        signal: signal.into(),
        threshold: threshold.into(),
    };
    let answer = client.simulate(request("memory.available", "80Mi")).await.unwrap().into_inner();
    let decision = answer.decision.unwrap();
    assert_eq!((decision.number, decision.would, decision.woken_by.as_str()), (0, true, "simulate"));
    let refused = client.simulate(request("memory.free", "80Mi")).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("\"memory.free\": expected one of memory.available, "), "{refused}");
    let refused = client.simulate(request("memory.available", "x")).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message().contains("no threshold")),
        (Code::FailedPrecondition, true)
    );
}

#[tokio::test]
async fn where_nothing_is_watched() {
    let (_running, mut client) = serving(Node::default()).await;
    for refused in [
        client.get_pressure(proto::GetPressureRequest {}).await.map(|_| ()).unwrap_err(),
        client.list_decisions(proto::ListDecisionsRequest::default()).await.map(|_| ()).unwrap_err(),
        client.simulate(proto::SimulateRequest::default()).await.map(|_| ()).unwrap_err(),
    ] {
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("does not watch this node"), "{refused}");
    }
}
