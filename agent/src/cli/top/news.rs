//! Asks the agent about the pod whose page is open, and follows its events, until the page is closed.

use std::time::Duration;

use nodewarden_proto::nodewarden::v1::{ListPodsRequest, WatchEventsRequest};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::Status;
use tonic::transport::Channel;

use super::page::details::{Details, News};
use crate::cli::client;
use nodewarden_api::grpc::event;

/// Time between two questions about the pod, and before a failed one is repeated.
const BETWEEN: Duration = Duration::from_secs(1);
/// How many messages may wait to be shown. The agent waits as well then.
const WAITING: usize = 64;

/// What comes about one pod. Dropping it ends the questions.
pub struct Feed {
    receiver: mpsc::Receiver<News>,
    _tasks: JoinSet<()>,
}

impl Feed {
    /// Must be called inside a tokio runtime.
    pub fn open(channel: &Channel, pod: &str) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        let mut tasks = JoinSet::new();
        tasks.spawn(ask(channel.clone(), pod.to_owned(), sender.clone()));
        tasks.spawn(follow(channel.clone(), pod.to_owned(), sender));
        Self { receiver, _tasks: tasks }
    }

    /// Waits for news, and takes all that have come meanwhile. Nothing is lost if it is not awaited to its
    /// end.
    pub async fn next(&mut self, details: &mut Details) {
        match self.receiver.recv().await {
            Some(news) => details.take(news),
            // Both tasks have ended, which they do not.
            None => std::future::pending().await,
        }
        while let Ok(news) = self.receiver.try_recv() {
            details.take(news);
        }
    }
}

/// The pod as the agent runs it, again and again.
async fn ask(channel: Channel, pod: String, sender: mpsc::Sender<News>) {
    let request = ListPodsRequest { pod: pod.clone(), probes: true, ..ListPodsRequest::default() };
    loop {
        let news = match client::pods(channel.clone()).list(request.clone()).await {
            Ok(answer) => {
                let found = answer.into_inner().pods.into_iter().find(|own| own.uid == pod);
                News::Pod(found.map(Box::new))
            }
            Err(status) => News::Trouble(format!("no answer about the pod: {}", status.message())),
        };
        if sender.send(news).await.is_err() {
            return;
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

/// Its events in the journal, and new ones as they happen.
async fn follow(channel: Channel, pod: String, sender: mpsc::Sender<News>) {
    loop {
        let why = match events(&channel, &pod, &sender).await {
            Ok(()) => "the agent stopped".to_owned(),
            Err(status) => status.message().to_owned(),
        };
        if sender.send(News::Trouble(format!("no events, trying again: {why}"))).await.is_err() {
            return;
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

async fn events(channel: &Channel, pod: &str, sender: &mpsc::Sender<News>) -> Result<(), Status> {
    // All of them: without a time only new ones come.
    let since = Some(prost_types::Timestamp::default());
    let request = WatchEventsRequest { since, pod: pod.to_owned(), ..WatchEventsRequest::default() };
    let mut stream = client::service(channel.clone()).watch_events(request).await?.into_inner();
    let mut open = sender.send(News::Again).await.is_ok();
    while open && let Some(message) = stream.message().await? {
        // An event of a newer agent whose type is unknown here is skipped.
        if let Some(Ok(event)) = message.event.map(event::from_proto) {
            open = sender.send(News::Event(Box::new(event))).await.is_ok();
        }
    }
    Ok(())
}
