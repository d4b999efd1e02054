use nodewarden_proto::nodewarden::v1::{GarbageOutcome, GarbageStep};

use super::*;
use crate::cli::SocketArg;
use nodewarden_api::grpc::fixture::Running;
use nodewarden_model::GcOutcome;
use nodewarden_model::fixture::{ImageGc, Node};

fn step(what: &str, id: &str, name: &str, freed_bytes: Option<u64>, error: &str) -> GarbageStep {
    GarbageStep {
        what: what.into(),
        id: id.into(),
        name: name.into(),
        freed_bytes,
        error: error.into(),
        ..GarbageStep::default()
    }
}

fn progress(wanted: u64, dry: bool) -> Progress {
    Progress::new([("sha256:0a0a".to_owned(), 120 << 20)].into(), wanted, dry)
}

fn outcome(wanted_bytes: u64, freed_bytes: u64, reached: bool) -> GarbageOutcome {
    GarbageOutcome { wanted_bytes, freed_bytes, reached }
}

#[test]
fn steps_with_freed_of_wanted() {
    let mut progress = progress(200 << 20, false);
    let image = step("image", "sha256:0a0a", "shop/old:1", Some(90 << 20), "");
    assert_eq!(progress.step(&image), "image shop/old:1 (0a0a) removed, freed 90.0Mi: 90.0Mi of 200Mi");
    assert_eq!(progress.step(&image), "image shop/old:1 (0a0a) removed, freed 90.0Mi: 180Mi of 200Mi");
    let logs = step("logs", "/var/log/pods/a", "", None, "");
    assert_eq!(progress.step(&logs), "logs /var/log/pods/a removed");
    let failed = step("container", "dead", "shop/cart\x1b", None, "busy\nthere");
    assert_eq!(progress.step(&failed), "container shop/cart? (dead) not removed: busy?there");
    let short = outcome(200 << 20, 180 << 20, false);
    assert_eq!(
        progress.summary(&short),
        "Removed 2 images, logs of one container or pod; freed 180Mi of 200Mi wanted"
    );
    assert_eq!(
        progress.problems(&short),
        [
            "a removal failed",
            "not enough was freed (180Mi of 200Mi): `nodewarden images` shows why the other images are kept"
        ]
    );
    assert_eq!(progress.problems(&outcome(200 << 20, 200 << 20, true)), ["a removal failed"]);
}

#[test]
fn where_nothing_was_wanted() {
    let mut progress = progress(0, false);
    assert_eq!(progress.summary(&outcome(0, 0, true)), "Nothing to collect");
    // Freeing nothing is not a failure if nothing is wanted.
    assert_eq!(progress.problems(&outcome(0, 0, false)), [""; 0]);
    let sandbox = step("sandbox", "5afe", "shop/cart", Some(4096), "");
    assert_eq!(progress.step(&sandbox), "sandbox shop/cart (5afe) removed, freed 4.00Ki");
    progress.step(&sandbox);
    assert_eq!(progress.summary(&outcome(0, 8192, true)), "Removed 2 sandboxes; freed 8.00Ki");
}

#[test]
fn nothing_of_what_was_wanted() {
    let mut progress = progress(1 << 20, false);
    assert_eq!(progress.summary(&outcome(1 << 20, 0, false)), "Nothing removed; freed 0 of 1.00Mi wanted");
    progress.step(&step("image", "sha256:0a0a", "a", None, "busy"));
    assert_eq!(progress.summary(&outcome(0, 0, true)), "Nothing removed; freed 0");
}

#[test]
fn a_plan_has_sizes_and_no_problems() {
    let mut progress = progress(200 << 20, true);
    let image = step("image", "sha256:0a0a", "shop/old:1", None, "");
    assert_eq!(progress.step(&image), "image shop/old:1 (0a0a) would be removed, 120Mi");
    let container = step("container", "dead", "shop/cart [web]", None, "");
    assert_eq!(progress.step(&container), "container shop/cart [web] (dead) would be removed");
    let planned = outcome(200 << 20, 0, false);
    assert_eq!(
        progress.summary(&planned),
        "Would remove 1 container, 1 image; 120Mi of 200Mi wanted (runtime-reported)"
    );
    assert_eq!(progress.problems(&planned), [""; 0]);
    assert_eq!(
        Progress::new(HashMap::new(), 1, true).summary(&planned),
        "Nothing can be removed; 0 of 200Mi wanted"
    );
}

#[test]
fn as_json() {
    let mut own = step("image", "sha256:0a0a", "a", Some(1), "");
    own.time = Some(prost_types::Timestamp { seconds: 100, nanos: 0 });
    let json = progress::step_json(&own);
    assert_eq!((&json["time"], &json["freed"]), (&"1970-01-01T00:01:40Z".into(), &1.into()));
    assert_eq!(progress::outcome_json(&outcome(2, 1, false))["outcome"]["freed"], 1);
}

async fn collected(node: Node, dry_run: bool, output: Output) -> Result<(), CliError> {
    let running = Running::serving(node).await;
    run(GcArgs { socket: SocketArg { socket: running.socket.clone() }, dry_run, output }).await
}

/// From the agent's answer to the exit status.
#[tokio::test]
async fn exit_status_by_what_came_about() {
    let whole =
        ImageGc { outcome: Ok(GcOutcome { wanted: 1, freed: 1, reached: true }), error: String::new() };
    let node = |image_gc: &ImageGc| Node::with(true, Some(image_gc.clone()));
    for output in [Output::Text, Output::Json] {
        collected(node(&whole), false, output).await.unwrap();
        // Nothing is removed yet: what is wanted is no failure.
        collected(node(&ImageGc::default()), true, output).await.unwrap();
        let failed = collected(node(&ImageGc::default()), false, output).await.unwrap_err();
        assert_eq!(failed.exit_status(), 1);
        assert!(
            failed.to_string().starts_with("a removal failed; not enough was freed (120Mi of "),
            "{failed}"
        );
    }
    let ended = ImageGc { outcome: Err("the runtime does not answer".into()), ..whole.clone() };
    let ended = collected(node(&ended), false, Output::Text).await.unwrap_err();
    assert_eq!((ended.exit_status(), ended.to_string().as_str()), (1, "the runtime does not answer"));
    let observing = Node::with(false, Some(whole));
    let refused = collected(observing, false, Output::Text).await.unwrap_err();
    assert!(refused.to_string().contains("mode observe, where nothing is removed"), "{refused}");
}
