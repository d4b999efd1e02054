//! Finds the log of a container's run and sends it to the client.

use std::path::Path;
use std::sync::Arc;

use nodewarden_proto::nodewarden::v1 as proto;
use proto::logs_response::Message;
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::super::time;
use super::{choose, stopping};
use nodewarden_cri::logs;
use nodewarden_cri::logs::{LogPath, Piece, Request};
use nodewarden_model::{AgentState, ContainerState, ContainerView};
use nodewarden_pods::paths::PodPaths;
use nodewarden_tasks::blocking;

type Answer = Result<proto::LogsResponse, Status>;

/// Finds the log and starts sending it.
pub async fn stream(
    state: Arc<dyn AgentState>,
    logs_dir: &Path,
    request: proto::LogsRequest,
    mut end: watch::Receiver<bool>,
) -> Result<impl Stream<Item = Answer> + Send + 'static, Status> {
    let since = match &request.since {
        None => None,
        Some(since) => Some(time::to_timestamp(since).ok_or_else(|| {
            Status::invalid_argument(format!(
                "since is no point in time: {} s, {} ns",
                since.seconds, since.nanos
            ))
        })?),
    };
    let pod = choose::pod(&state.pods(), &request.pod)?;
    let (container, chosen) = choose::container(&pod, &request.container)?;
    let pod_logs = PodPaths::new(Path::new(""), logs_dir, &pod.pod).logs;
    let name = container.name.clone();
    let runs = blocking::LOG_READING.run(move || logs::runs(&pod_logs, &name)).await;
    let runs = runs.map_err(|e| Status::internal(e.to_string()))?;
    let runs = runs.map_err(|e| Status::internal(e.to_string()))?;
    let path = run(runs, request.previous, container, &choose::full_name(&pod))?;

    let wanted = Request {
        tail: request.tail_lines,
        since,
        timestamps: request.timestamps,
        limit_bytes: request.limit_bytes,
        stream: None,
    };
    let alive = (request.follow && !request.previous).then(|| {
        let (uid, name, id) = (pod.pod.uid.clone(), container.name.clone(), container.id.clone());
        move || is_running(state.as_ref(), &uid, &name, &id)
    });
    let (answers, receiver) = mpsc::channel::<Answer>(16);
    tokio::spawn(async move {
        let (out, pieces) = mpsc::channel(16);
        let work = async {
            let first = proto::LogsResponse { message: Some(Message::Chosen(chosen)) };
            if answers.send(Ok(first)).await.is_err() {
                return;
            }
            let (sent, ()) = tokio::join!(logs::send(&path, &wanted, alive, out), forward(pieces, &answers));
            if let Err(e) = sent {
                let _gone = answers.send(Err(Status::internal(e.to_string()))).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = answers.closed() => {}
            // An error means that the server has ended.
            _ = end.wait_for(|end| *end) => {
                let _gone = answers.try_send(Err(stopping()));
            }
        }
    });
    Ok(ReceiverStream::new(receiver))
}

async fn forward(mut pieces: mpsc::Receiver<Piece>, answers: &mpsc::Sender<Answer>) {
    while let Some(Piece { stream, bytes }) = pieces.recv().await {
        let message = match stream {
            logs::Stream::Stdout => Message::Stdout(bytes),
            logs::Stream::Stderr => Message::Stderr(bytes),
        };
        if answers.send(Ok(proto::LogsResponse { message: Some(message) })).await.is_err() {
            return;
        }
    }
}

/// The log of the newest run, or of the previous one. The messages are the kubelet's
/// (`validateContainerLogStatus`).
fn run(
    runs: Vec<(u32, LogPath)>,
    previous: bool,
    container: &ContainerView,
    pod: &str,
) -> Result<LogPath, Status> {
    let name = &container.name;
    match (runs.into_iter().nth(previous.into()), &container.state) {
        (Some((_, path)), _) => Ok(path),
        (None, _) if previous => {
            Err(Status::not_found(format!("previous terminated container {name:?} in pod {pod} not found")))
        }
        (None, ContainerState::Waiting { reason, message }) => {
            let message = if message.is_empty() { String::new() } else { format!(": {message}") };
            Err(Status::failed_precondition(format!(
                "container {name:?} in pod {pod} is waiting to start: {reason}{message}"
            )))
        }
        (None, _) => Err(Status::not_found(format!("container {name:?} in pod {pod} has no log"))),
    }
}

/// Whether the container of the request is still running and was not replaced.
fn is_running(state: &dyn AgentState, uid: &str, name: &str, id: &str) -> bool {
    state.pods().iter().filter(|pod| pod.pod.uid == uid).flat_map(|pod| &pod.containers).any(|container| {
        container.name == name
            && container.id == id
            && matches!(container.state, ContainerState::Running { .. })
    })
}

#[cfg(test)]
mod tests {
    use nodewarden_model::WaitingReason;

    use super::super::tests::container;
    use super::*;

    #[test]
    fn newest_and_previous() {
        let log = |name: &str| LogPath::new(Path::new("/logs/pod"), name);
        let runs = || vec![(3, log("3.log")), (1, log("1.log"))];
        let web = container("web", "c0");
        assert_eq!(run(runs(), false, &web, "shop/cart").unwrap(), log("3.log"));
        assert_eq!(run(runs(), true, &web, "shop/cart").unwrap(), log("1.log"));
        let text = |runs, previous, web: &ContainerView| {
            run(runs, previous, web, "shop/cart").unwrap_err().message().to_owned()
        };
        assert_eq!(
            text(runs()[..1].to_vec(), true, &web),
            "previous terminated container \"web\" in pod shop/cart not found"
        );
        assert_eq!(text(vec![], false, &web), "container \"web\" in pod shop/cart has no log");
        let state =
            ContainerState::Waiting { reason: WaitingReason::ErrImagePull, message: "no such image".into() };
        assert_eq!(
            text(vec![], false, &ContainerView { state, ..web }),
            "container \"web\" in pod shop/cart is waiting to start: ErrImagePull: no such image"
        );
    }
}
