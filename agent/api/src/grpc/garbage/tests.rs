//! The calls over a real socket.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1 as proto;
use proto::collect_garbage_response::Message;
use proto::garbage_client::GarbageClient;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, mpsc, watch};
use tonic::Code;
use tonic::transport::Channel;

use super::run;
use crate::grpc::fixture::Running;
use nodewarden_model::GcSettings;
use nodewarden_model::fixture::{ImageGc, Node};
use nodewarden_model::{GcOutcome, GcStep, ImagesView};

async fn serving(node: Node) -> (Running, GarbageClient<Channel>) {
    let running = Running::serving(node).await;
    let client = GarbageClient::new(crate::grpc::client::channel(&running.socket).await.unwrap());
    (running, client)
}

fn node(image_gc: ImageGc) -> Node {
    Node::with(true, Some(image_gc))
}

#[tokio::test]
async fn images_with_what_keeps_them() {
    let (_running, mut client) = serving(Node::with(false, Some(ImageGc::default()))).await;
    let answer = client.list_images(proto::ListImagesRequest {}).await.unwrap().into_inner();
    assert_eq!((answer.mode.as_str(), answer.wanted_bytes), ("observe", 2 << 30));
    let states: Vec<_> = answer.images.iter().map(|own| own.state.as_str()).collect();
    assert_eq!(states, ["removable", "removable", "young", "container", "sandbox"]);
    let (old, new) = (&answer.images[0], &answer.images[2]);
    assert_eq!(old.last_used.unwrap().seconds, 1_700_000_009);
    assert_eq!((new.first_detected, new.last_used), (None, None));
    assert_eq!(answer.images[3].users, ["shop/cart [web]"]);
    let settings = answer.settings.unwrap();
    assert_eq!((settings.high_percent, settings.low_percent, settings.maximum_age_seconds), (85, 80, None));
    assert_eq!(answer.filesystem.unwrap().path, "/var/lib/containerd");
}

#[tokio::test]
async fn steps_as_they_are_done_and_the_outcome_last() {
    let (_running, mut client) = serving(node(ImageGc::default())).await;
    let request = proto::CollectGarbageRequest { dry_run: false };
    let mut stream = client.collect_garbage(request).await.unwrap().into_inner();
    let mut steps = Vec::new();
    let outcome = loop {
        match stream.message().await.unwrap().unwrap().message.unwrap() {
            Message::Step(step) => steps.push((step.what, step.freed_bytes, step.error, step.dry_run)),
            Message::Outcome(outcome) => break outcome,
        }
    };
    let step = |what: &str, freed, error: &str| (what.to_owned(), freed, error.to_owned(), false);
    let expected = [
        step("container", None, ""),
        step("image", Some(120 << 20), ""),
        step("image", None, "image is busy"),
    ];
    assert_eq!(steps, expected);
    assert_eq!((outcome.wanted_bytes, outcome.freed_bytes, outcome.reached), (1400 << 20, 120 << 20, false));
    assert!(stream.message().await.unwrap().is_none());
}

#[tokio::test]
async fn what_there_is_no_collection_of() {
    let request = || proto::CollectGarbageRequest { dry_run: true };
    let (_running, mut client) = serving(Node::with(true, None)).await;
    for refused in [
        client.list_images(proto::ListImagesRequest {}).await.map(|_| ()).unwrap_err(),
        client.collect_garbage(request()).await.map(|_| ()).unwrap_err(),
    ] {
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("no container runtime"), "{refused}");
    }
    let (_running, mut client) = serving(Node::with(false, Some(ImageGc::default()))).await;
    let refused = client.collect_garbage(request()).await.map(|_| ()).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("mode observe"), "{refused}");

    let failed = ImageGc { outcome: Err::<GcOutcome, _>("the runtime is away".into()), ..ImageGc::default() };
    let (_running, mut client) = serving(node(failed)).await;
    let mut stream = client.collect_garbage(request()).await.unwrap().into_inner();
    for _ in 0..3 {
        assert!(stream.message().await.unwrap().is_some());
    }
    let ended = stream.message().await.unwrap_err();
    assert_eq!((ended.code(), ended.message()), (Code::Aborted, "the runtime is away"));
}

/// A collection that waits for permission and reports its end.
#[derive(Default)]
struct Slow {
    begin: Notify,
    done: Notify,
}

#[async_trait::async_trait]
impl nodewarden_model::ImageGc for Slow {
    fn settings(&self) -> GcSettings {
        GcSettings::default()
    }

    async fn view(&self) -> ImagesView {
        ImagesView::default()
    }

    async fn collect(&self, _: bool, steps: UnboundedSender<GcStep>) -> Result<GcOutcome, String> {
        self.begin.notified().await;
        let (time, what) = (Timestamp::now(), "image");
        let step = GcStep {
            time,
            what,
            id: "a".into(),
            name: "a".into(),
            freed: None,
            error: String::new(),
            dry: false,
        };
        let _gone = steps.send(step);
        self.done.notify_one();
        Ok(GcOutcome::default())
    }
}

#[tokio::test]
async fn a_collection_continues_after_the_client_has_left() {
    let slow = Arc::new(Slow::default());
    let (answers, receiver) = mpsc::unbounded_channel();
    let (_stop, stopping) = watch::channel(false);
    let running = tokio::spawn(run(slow.clone(), false, answers, stopping));
    tokio::task::yield_now().await;
    drop(receiver);
    slow.begin.notify_one();
    let ended = tokio::time::timeout(Duration::from_secs(10), running).await;
    ended.expect("in time").expect("no panic");
    let done = tokio::time::timeout(Duration::from_secs(10), slow.done.notified()).await;
    done.expect("it was collected to the end");
}

#[tokio::test]
async fn an_ending_agent_ends_the_stream_with_a_status() {
    let (answers, mut receiver) = mpsc::unbounded_channel();
    let (stop, stopping) = watch::channel(false);
    let running = tokio::spawn(run(Arc::new(Slow::default()), false, answers, stopping));
    stop.send_replace(true);
    let ended = tokio::time::timeout(Duration::from_secs(10), running).await;
    ended.expect("in time").expect("no panic");
    assert_eq!(receiver.recv().await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert!(receiver.recv().await.is_none());
}
