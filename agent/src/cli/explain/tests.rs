//! What is explanation of decisions.

use std::sync::Arc;

use super::*;
use nodewarden_api::grpc::fixture::Running;
use nodewarden_model::CandidateSeen;
use nodewarden_model::fixture::{Node, decisions as taken};

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_100).unwrap()
}

fn explanation(pod: &str, decisions: &[Arc<Decision>], total: u32, considered: u32) -> Explanation {
    Explanation {
        pod: pod.into(),
        with_considered: false,
        decisions: decisions.iter().map(|own| (**own).clone()).collect(),
        total,
        considered,
        pods: Vec::new(),
        devices: String::new(),
        limits: String::new(),
        neighbours: String::new(),
    }
}

#[test]
fn a_decision_whole() {
    let expected = "\
Decision 7, 30s ago (2023-11-14T22:14:30.000Z): eviction, woken by psi kubepods
Outcome: evicted shop/cart-5d9c; its memory is back

SIGNAL            AVAILABLE  THRESHOLD  CAPACITY  KIND  PASSED
memory.available     60.0Mi      100Mi    24.0Gi  hard  for 2ms
pid.available         30.0k      1.00k     32.8k  hard  no

ORDER  POD             QOS           PRIORITY   USAGE  REQUEST    OVER  DECISION
    1  shop/cart-5d9c  Burstable            0   900Mi    100Mi   800Mi  evicted
    2  shop/web        Burstable            0   300Mi    200Mi   100Mi  kept
    3  shop/idle       BestEffort           0  1.00Mi        0  1.00Mi  kept
    -  shop/proxy      Guaranteed  2000000000   200Mi    150Mi  50.0Mi  kept: critical

STEP         AFTER     TOOK  RESULT
read           0ns  180.0µs
rank       180.0µs   12.0µs  3 pods may go
kill       230.0µs  900.0µs  4 processes
memory back  1.1ms   41.0ms  960Mi available
";
    let text = explanation("", &taken()[..1], 1, 0).text(false, now());
    // Columns of the steps are as wide as their widest cell.
    let squeezed = |text: &str| {
        text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(squeezed(&text), squeezed(expected));
    let head: Vec<_> = text.lines().take(11).collect();
    assert_eq!(head, expected.lines().take(11).collect::<Vec<_>>());
}

#[test]
fn units_follow_what_was_short() {
    let text = explanation("", &taken()[1..], 2, 0).text(false, now());
    for part in [
        "Decision 6, 1m10s ago (2023-11-14T22:13:50.000Z): preemption, woken by admission of shop/proxy",
        "cpu          200m       500m         2  hard  for 0ms\n",
        "    1  shop/web        Burstable         0   400m     400m     -  preempted\n",
        "\nDecision 5, 1m20s ago (2023-11-14T22:13:40.000Z), nothing was done: eviction, woken by timer 40ms\n",
        "nodefs.inodesFree      40.0k      50.0k     1.00M  soft, after 1m30s  for 1m35s\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn figures_are_of_the_signal_that_was_acted_on() {
    let mut own = (*taken()[0]).clone();
    // Inodes are short as well, and first; memory goes before.
    let mut inodes = taken()[2].signals[0].clone();
    (inodes.hard, inodes.grace_ms) = (true, None);
    own.signals.insert(0, inodes.clone());
    let text = explanation("", &[Arc::new(own.clone())], 1, 0).text(false, now());
    assert!(text.contains("900Mi"), "{text}");
    // A soft threshold whose grace period is not over evicts no pod.
    own.signals = vec![inodes, own.signals[1].clone()];
    (own.signals[1].hard, own.signals[1].grace_ms) = (false, Some(90_000));
    own.candidates[0].usage = 12_000;
    let text = explanation("", &[Arc::new(own)], 1, 0).text(false, now());
    assert!(text.contains("12.0k"), "{text}");
}

#[test]
fn candidates_far_from_having_to_go_are_counted() {
    let mut own = (*taken()[0]).clone();
    let web = own.candidates[1].clone();
    own.candidates.splice(1..3, (1..=20).map(|n| CandidateSeen { name: format!("web-{n}"), ..web.clone() }));
    let own = [Arc::new(own)];
    let text = explanation("", &own, 1, 0).text(false, now());
    assert!(text.contains("    6  shop/web-5 ") && !text.contains("shop/web-6 "), "{text}");
    assert!(text.contains("\nand 16 more: --all shows them\n"), "{text}");
    // The pod of the request is always shown, at its position.
    let text = explanation("shop/web-12", &own, 1, 0).text(false, now());
    assert!(text.contains("   13  shop/web-12 ") && text.contains("\nand 15 more: "), "{text}");
    let text = explanation("", &own, 1, 0).text(true, now());
    assert!(text.contains("   21  shop/web-20 ") && text.contains("    -  shop/proxy "), "{text}");
    assert!(!text.contains("--all"), "{text}");
}

#[test]
fn a_figure_that_is_not_complete_is_shown_as_a_lower_bound() {
    let mut own = (*taken()[0]).clone();
    own.candidates[1].incomplete = true;
    let text = explanation("", &[Arc::new(own)], 1, 0).text(false, now());
    assert!(text.contains(" >=300Mi ") && !text.contains(">=900Mi"), "{text}");
}

#[test]
fn decisions_that_are_left_out_are_counted() {
    let text = |pod: &str, shown: &[Arc<Decision>], total, considered| {
        let text = explanation(pod, shown, total, considered).text(false, now());
        text.lines()
            .skip_while(|line| line.contains(':') && !line.contains("--"))
            .last()
            .unwrap_or("")
            .to_owned()
    };
    let all = taken();
    assert_eq!(text("", &all[..1], 3, 0), "2 older decisions: --limit 0 shows all");
    assert_eq!(
        explanation("", &[], 0, 0).text(false, now()),
        "No decisions yet: the node was not under pressure\n"
    );
    assert_eq!(explanation("shop/new", &[], 0, 0).text(false, now()), "No decisions about shop/new\n");
    assert_eq!(
        explanation("idle", &[], 0, 2).text(false, now()),
        "idle was chosen in none of the recorded decisions\n\
         idle was a candidate in 2 decisions and was not chosen: --considered shows them\n"
    );
    assert_eq!(
        text("web", &all[1..2], 1, 1),
        "web was a candidate in 1 decision and was not chosen: --considered shows them"
    );
    let shown =
        Explanation { with_considered: true, ..explanation("web", &all[..2], 2, 1) }.text(false, now());
    assert!(!shown.contains("--considered"), "{shown}");
}

#[test]
fn a_pod_that_waits_says_why() {
    let waits = Pod {
        namespace: "shop".into(),
        name: "new".into(),
        phase: "Pending".into(),
        reason: "OutOfcpu".into(),
        message: "Node didn't have enough resource: cpu,\x1b requested: 500, used: 1700, capacity: 2000"
            .into(),
        ..Pod::default()
    };
    let explanation = Explanation { pods: vec![waits], ..explanation("shop/new", &[], 0, 0) };
    let expected = "\
shop/new is Pending (OutOfcpu): Node didn't have enough resource: cpu,? requested: 500, used: 1700, capacity: 2000

No decisions about shop/new
";
    assert_eq!(explanation.text(false, now()), expected);
    assert_eq!(explanation.json(), json!([]));
}

#[test]
fn as_json() {
    let json = explanation("", &taken(), 3, 0).json();
    let own = &json[0];
    assert_eq!((&own["number"], &own["wokenBy"]), (&7.into(), &"psi kubepods".into()));
    assert_eq!(
        (&own["signals"][0]["passedForMs"], &own["signals"][0]["threshold"]),
        (&2.into(), &(100 << 20).into())
    );
    assert_eq!(
        (&own["candidates"][0]["chosen"], &own["candidates"][3]["spared"]),
        (&true.into(), &"critical".into())
    );
    assert_eq!((&own["steps"][2]["what"], &own["steps"][2]["afterUs"]), (&"kill".into(), &230.into()));
    assert_eq!((own.get("would"), &json[2]["would"]), (Some(&false.into()), &true.into()));
    let back: Vec<Decision> = serde_json::from_value(json).unwrap();
    assert_eq!(back, taken().iter().map(|own| (**own).clone()).collect::<Vec<_>>());
}

async fn explained(subject: &str, node: Node) -> Result<(), CliError> {
    let running = Running::serving(node).await;
    for output in [Output::Text, Output::Json] {
        run(ExplainArgs {
            socket: SocketArg { socket: running.socket.clone() },
            subject: subject.into(),
            considered: false,
            limit: None,
            all: false,
            output,
        })
        .await?;
    }
    Ok(())
}

/// From the agent's answer to the exit status.
#[tokio::test]
async fn who_can_be_explained() {
    for subject in ["node", "shop/cart-5d9c", "8c5e", "idle"] {
        explained(subject, Node::under_pressure()).await.unwrap();
    }
    let nowhere = explained("shop/none", Node::under_pressure()).await.unwrap_err();
    assert_eq!(nowhere.exit_status(), 1);
    assert!(nowhere.to_string().starts_with("pod \"shop/none\" not found"), "{nowhere}");
    let unwatched = explained("node", Node::default()).await.unwrap_err();
    assert!(unwatched.to_string().contains("does not watch this node"), "{unwatched}");
}
