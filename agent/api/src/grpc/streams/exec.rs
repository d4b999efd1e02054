//! Passes input and output of a command between the client and the runtime.

use nodewarden_proto::nodewarden::v1 as proto;
use proto::exec_request::Message as Input;
use proto::exec_response::Message as Said;
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{choose, stopping};
use nodewarden_cri::logs;
use nodewarden_cri::logs::Piece;
use nodewarden_cri::{Client, ExecCommand, ExecError, ExecInput, RuntimeError};
use nodewarden_model::{AgentState, ContainerState, ContainerView};

type Answer = Result<proto::ExecResponse, Status>;

/// Reads the first message, finds the container and starts the command.
pub async fn stream(
    state: &dyn AgentState,
    runtime: Client,
    mut requests: Streaming<proto::ExecRequest>,
    mut end: watch::Receiver<bool>,
) -> Result<impl Stream<Item = Answer> + Send + 'static, Status> {
    let start = match requests.message().await? {
        Some(proto::ExecRequest { message: Some(Input::Start(start)) }) => start,
        _ => return Err(Status::invalid_argument("the first message must be start")),
    };
    if start.command.is_empty() {
        return Err(Status::invalid_argument("no command is given"));
    }
    let pod = choose::pod(&state.pods(), &start.pod)?;
    let (container, chosen) = choose::container(&pod, &start.container)?;
    check_running(container, &choose::full_name(&pod))?;
    let command = ExecCommand {
        container_id: container.id.clone(),
        command: start.command,
        stdin: start.stdin,
        tty: start.tty,
    };
    let (answers, receiver) = mpsc::channel::<Answer>(16);
    tokio::spawn(async move {
        let (input, received) = mpsc::channel(16);
        let (output, pieces) = mpsc::channel(16);
        let work = async {
            let _gone = answers.send(say(Said::Chosen(chosen))).await;
            if let (true, Some(size)) = (command.tty, start.size) {
                let _gone = input.send(resize(size)).await;
            }
            let ended = async {
                // The sender of output is dropped at the end of the command, so all output is forwarded
                // before the exit code.
                let ended = runtime.exec(&command, received, output).await;
                ended.map_err(|e| status(&e))
            };
            let (ended, ()) = tokio::join!(ended, forward(pieces, &answers));
            let ended = ended.and_then(|exit_code| say(Said::Ended(proto::ExecEnded { exit_code })));
            let _gone = answers.send(ended).await;
        };
        let feed = async {
            feed(requests, &input, command.stdin).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = work => {}
            () = feed => {}
            () = answers.closed() => {}
            // An error means that the server has ended.
            _ = end.wait_for(|end| *end) => {
                let _gone = answers.try_send(Err(stopping()));
            }
        }
    });
    Ok(ReceiverStream::new(receiver))
}

fn check_running(container: &ContainerView, pod: &str) -> Result<(), Status> {
    let state = match &container.state {
        ContainerState::Running { .. } => return Ok(()),
        ContainerState::Waiting { reason, .. } => format!("waiting ({reason})"),
        ContainerState::Terminated(ended) => format!("terminated ({})", ended.reason),
    };
    let name = &container.name;
    Err(Status::failed_precondition(format!("container {name:?} in pod {pod} is not running: it is {state}")))
}

fn say(message: Said) -> Answer {
    Ok(proto::ExecResponse { message: Some(message) })
}

/// Passes on the client's input until it ends or the client disconnects.
async fn feed(mut requests: Streaming<proto::ExecRequest>, input: &mpsc::Sender<ExecInput>, stdin: bool) {
    while let Ok(Some(request)) = requests.message().await {
        let passed = match request.message {
            Some(Input::Stdin(bytes)) if stdin => ExecInput::Stdin(bytes),
            Some(Input::Resize(size)) => resize(size),
            Some(Input::CloseStdin(_)) if stdin => ExecInput::Close,
            _ => continue,
        };
        if input.send(passed).await.is_err() {
            return;
        }
    }
    if stdin {
        // Fails only after the command has ended, so nothing is lost.
        let _ended = input.send(ExecInput::Close).await;
    }
}

fn resize(size: proto::TerminalSize) -> ExecInput {
    let clamp = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
    ExecInput::Resize { columns: clamp(size.columns), rows: clamp(size.rows) }
}

async fn forward(mut pieces: mpsc::Receiver<Piece>, answers: &mpsc::Sender<Answer>) {
    while let Some(Piece { stream, bytes }) = pieces.recv().await {
        let message = match stream {
            logs::Stream::Stdout => Said::Stdout(bytes),
            logs::Stream::Stderr => Said::Stderr(bytes),
        };
        if answers.send(say(message)).await.is_err() {
            return;
        }
    }
}

fn status(error: &ExecError) -> Status {
    let text = error.to_string();
    match error {
        ExecError::Runtime(e) if e.is_not_found() => Status::not_found(text),
        ExecError::Runtime(RuntimeError::TimedOut { .. }) => Status::deadline_exceeded(text),
        ExecError::Runtime(e) if e.is_unavailable() => Status::unavailable(text),
        ExecError::Connect { .. } | ExecError::Broken { .. } => Status::unavailable(text),
        ExecError::NotRun { .. } => Status::failed_precondition(text),
        _ => Status::internal(text),
    }
}
