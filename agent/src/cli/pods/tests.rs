use clap::{CommandFactory, Parser};

use super::*;
use crate::cli::Cli;
use nodewarden_api::grpc::pods;
use nodewarden_model::AgentState;
use nodewarden_model::fixture::Node;

fn answers(kubernetes: bool) -> [ListPodsResponse; 2] {
    let node = Node::default();
    let request = ListPodsRequest { kubernetes, ..ListPodsRequest::default() };
    let probes = node.probes();
    [(); 2].map(|()| ListPodsResponse {
        mode: "manage".into(),
        ..pods::list(&node.pods(), &node.snapshot(), &probes, Some("containerd"), &request)
    })
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

#[test]
fn a_table() {
    let [before, now] = answers(false);
    assert_eq!(
        list::text(&before, &now, false, at(90)),
        "\
NAMESPACE  NAME       QOS        READY  STATE    RESTARTS  REASON    AGE   CPU  MEMORY
shop       cart-5d9c  Burstable    1/1  Running         2  -       1m30s  0.64  64.0Mi
"
    );
    let wide = list::text(&before, &now, true, at(90));
    assert!(wide.lines().next().unwrap().ends_with("MEMORY  IP        UID   MANIFEST"), "{wide}");
    assert!(wide.ends_with("10.0.0.7  8c5e  /etc/nodewarden/manifests/cart.yaml\n"), "{wide}");
}

#[test]
fn no_pods() {
    let none = |mode: &str| {
        let answer = ListPodsResponse { mode: mode.into(), ..ListPodsResponse::default() };
        list::text(&answer, &answer, false, at(0))
    };
    assert!(none("manage").contains("manifest directory"));
    assert!(none("observe").contains("nodewarden tree --pods"));
}

#[test]
fn only_what_changed() {
    let [before, now] = answers(false);
    assert_eq!(list::changed(&before, &now, false, at(90)), "");
    let mut restarted = now.clone();
    restarted.pods[0].containers[1].restarts = 3;
    assert!(list::changed(&now, &restarted, false, at(90)).contains("Running  3"));
    let none = ListPodsResponse::default();
    assert!(list::changed(&none, &now, false, at(90)).starts_with("shop  cart-5d9c"));
    assert!(list::changed(&now, &none, false, at(90)).contains("Gone"));
}

#[test]
fn as_kubernetes_writes_them() {
    let [_, now] = answers(true);
    let json: serde_json::Value = serde_json::from_str(&list::json(&now)).unwrap();
    assert_eq!(
        (&json["kind"], &json["items"][0]["metadata"]["name"]),
        (&"PodList".into(), &"cart-5d9c".into())
    );
    let yaml: serde_json::Value = serde_yaml_ng::from_str(&list::yaml(&now)).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn all_about_one() {
    let [before, now] = answers(false);
    let events = ["2023-11-14T22:14:10.000Z oom stress killed".to_owned()];
    let text = describe::text(before.pods.first(), &now.pods[0], &events, at(90));
    assert_eq!(
        text,
        "\
Name:                cart-5d9c
Namespace:           shop
UID:                 8c5e
Manifest:            /etc/nodewarden/manifests/cart.yaml
QoS class:           Burstable
Priority:            0
Accepted:            2023-11-14T22:13:20.000Z (1m30s ago)
Labels:              app=cart
State:               Running, 1 of 1 ready
Sandbox:             5afe
IP:                  10.0.0.7
Use:                 cpu 0.64, memory 64.0Mi; may use memory 128Mi
Init containers:
  prepare:
    Container ID:    beef
    Image:           shop/prepare:1
    Image ID:        sha256:beef
    State:           Terminated
      Reason:        Completed
      Exit code:     0
      Started:       2023-11-14T22:13:21.000Z
      Finished:      2023-11-14T22:13:22.000Z
    Ready:           yes
    Restarts:        0
Containers:
  web:
    Container ID:    c0ffee
    Image:           shop/web:1
    Image ID:        sha256:c0ffee
    State:           Running
      Started:       2023-11-14T22:14:20.000Z (30s ago)
    Last state:      Terminated
      Reason:        OOMKilled
      Exit code:     137 (SIGKILL)
      Killed for memory: stress (pid 4711) at 2023-11-14T22:14:10.000Z
      Started:       2023-11-14T22:13:23.000Z
      Finished:      2023-11-14T22:14:10.000Z
    Ready:           yes
    Restarts:        2
    Killed for memory: worker (pid 4812) at 2023-11-14T22:14:30.000Z
    Requests:        cpu 100m, memory 64Mi
    Limits:          memory 128Mi
    Use:             cpu 0.63, memory 63.0Mi; may use memory 128Mi
    Startup:         exec [cat /tmp/up] delay=0s timeout=1s period=10s #success=1 #failure=3
      Result:        success
      Last run:      success at 2023-11-14T22:14:22.000Z (28s ago) in 41.5ms, 1 in a row
      Waits for:     a new container
      Runs:          1 successful
    Readiness:       http-get http://:8080/ready delay=0s timeout=1s period=10s #success=2 #failure=3
      Result:        success
      Last run:      failure at 2023-11-14T22:14:45.000Z (5s ago) in 2.0ms, 2 of 3 in a row
      Output:        HTTP probe failed with statuscode: 503
      Next:          2023-11-14T22:14:55.000Z (in 5s)
      Runs:          12 successful, 4 failed, 2 that could not be executed
    Liveness:        grpc <pod>:9090 delay=120s timeout=1s period=10s #success=1 #failure=3
      Grace:         5s for a container that is killed because of it
      Result:        none yet
      Next:          2023-11-14T22:16:20.000Z (in 1m30s)
Events:
  2023-11-14T22:14:10.000Z oom stress killed
"
    );
    let many: Vec<String> = (0..60).map(|n| format!("event {n}")).collect();
    let text = describe::text(None, &now.pods[0], &many, at(90));
    assert!(
        text.contains("(10 older ones: nodewarden events --pod shop/cart-5d9c --no-follow)\n  event 10\n")
    );
    assert!(text.ends_with("  event 59\n"));
}

#[test]
fn arguments() {
    for args in [
        vec!["pods"],
        vec!["pods", "-n", "shop", "-o", "wide", "--watch"],
        vec!["pods", "describe", "shop/cart", "--socket", "/s"],
    ] {
        assert!(Cli::try_parse_from(std::iter::once("nodewarden").chain(args.clone())).is_ok(), "{args:?}");
    }
    assert!(Cli::try_parse_from(["nodewarden", "pods", "--output", "xml"]).is_err());
    let mut cli = Cli::command();
    let pods = cli.find_subcommand_mut("pods").unwrap();
    let help = pods.find_subcommand_mut("describe").unwrap().render_long_help().to_string();
    assert!(help.contains("Examples:"), "{help}");
}

#[tokio::test]
async fn against_a_server() {
    use nodewarden_model::{Detail, PodRef};

    let running = nodewarden_api::grpc::fixture::Running::start().await;
    let pod = PodRef {
        uid: "8c5e".into(),
        namespace: "shop".into(),
        name: "cart-5d9c".into(),
        ..PodRef::default()
    };
    let started = Detail::Pod { reason: "Started".into(), message: "Started container web".into() };
    running.journal.append(Timestamp::now(), "/p", Some(pod), started.clone());
    running.journal.append(Timestamp::now(), "/q", None, started);
    let channel = client::channel(&running.socket).await.unwrap();
    let request = ListPodsRequest { pod: "cart-5d9c".into(), probes: true, ..ListPodsRequest::default() };
    let (_, now) = twice(&channel, &request, SHORTLY).await.unwrap();
    assert!(now.pods[0].containers[1].probes.iter().any(|probe| probe.r#type == "Liveness"));
    let events = events(&channel, &now.pods[0]).await.unwrap();
    assert_eq!(events.len(), 1);
    assert!(events[0].contains("Started container web"), "{events:?}");
    let socket = SocketArg { socket: running.socket.clone() };
    let none = describe(DescribeArgs { socket, pod: "other".into() }).await.unwrap_err();
    assert_eq!((none.exit_status(), none.to_string().contains("nodewarden pods")), (1, true));
}
