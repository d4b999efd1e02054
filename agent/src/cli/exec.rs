//! `nodewarden exec`: runs a command in a container.

use std::future::pending;
use std::io::{self, Write};

use clap::Args;
use nodewarden_proto::nodewarden::v1::exec_request::Message as Input;
use nodewarden_proto::nodewarden::v1::exec_response::Message as Said;
use nodewarden_proto::nodewarden::v1::{CloseStdin, ExecRequest, ExecStart};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::target::{self, TargetArgs};
use super::{CliError, terminal};

/// Run a command in a container of a managed pod
#[derive(Debug, Args)]
#[command(after_help = "\
The command is run without a shell: for pipes and variables run one. The exit
status is that of the command, or 1 if it could not be run. With -i the command
reads the standard input of this program, including its end. Without -t, Ctrl-C
ends only this program; the command in the container continues until it ends or
writes to its closed output.

Examples:
  nodewarden exec shop/cart -- cat /etc/hosts
  nodewarden exec -it cart -- sh                          a shell, until exit or Ctrl-D
  nodewarden exec -c mesh cart -- sh -c 'ps | wc -l'
  tar -c files | nodewarden exec -i cart -- tar -x -C /tmp")]
pub struct ExecArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Pass standard input to the command
    #[arg(long, short = 'i')]
    stdin: bool,
    /// Run the command in a terminal; needs -i, and this program must run in a terminal
    #[arg(long, short = 't')]
    tty: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub async fn run(args: ExecArgs) -> Result<(), CliError> {
    let ExecArgs { target, stdin, tty, command } = args;
    let tty = tty && {
        // The same message as kubectl's.
        if stdin && !terminal::is_input() {
            eprintln!("Unable to use a TTY - input is not a terminal or the right kind of file");
        }
        stdin && terminal::is_input()
    };
    let mut client = target.connect().await?;
    let (sender, requests) = mpsc::channel(16);
    let start = ExecStart {
        pod: target.pod(),
        container: target.container(),
        command,
        stdin,
        tty,
        size: if tty { terminal::size() } else { None },
    };
    let _room = sender.send(request(Input::Start(start))).await;
    let refused = target::refused(&target);
    let mut answers = client.exec(ReceiverStream::new(requests)).await.map_err(&refused)?.into_inner();
    let mut ends = Ends::new(tty)?;
    // Set to raw mode at the first response; until then Ctrl-C ends this program.
    let mut raw = None;
    let feed = async {
        feed(sender, stdin, tty).await?;
        pending().await
    };
    let listen = async {
        while let Some(answer) = answers.message().await.map_err(&refused)? {
            match answer.message {
                Some(Said::Chosen(chosen)) => {
                    if let Some(line) = target::defaulted(&chosen) {
                        eprintln!("{line}");
                    }
                    if tty {
                        raw = Some(terminal::Raw::enter()?);
                    }
                }
                Some(Said::Stdout(bytes)) => put(io::stdout().lock(), &bytes)?,
                Some(Said::Stderr(bytes)) => put(io::stderr().lock(), &bytes)?,
                Some(Said::Ended(ended)) => return Ok(ended.exit_code),
                None => {}
            }
        }
        Err(CliError::Stopped { socket: target.socket() })
    };
    let ended = tokio::select! {
        ended = listen => ended,
        never = feed => never,
        () = ends.wait() => Err(CliError::Interrupted),
    };
    drop(raw);
    match ended? {
        0 => Ok(()),
        code => Err(CliError::Exited { code }),
    }
}

fn put(mut out: impl Write, bytes: &[u8]) -> Result<(), CliError> {
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

fn request(message: Input) -> ExecRequest {
    ExecRequest { message: Some(message) }
}

/// Sends standard input and changes of the terminal's size to the agent.
async fn feed(sender: mpsc::Sender<ExecRequest>, stdin: bool, tty: bool) -> Result<(), CliError> {
    let mut input = if stdin { Some(terminal::input()) } else { None };
    let mut resized = if tty { Some(listen_to(SignalKind::window_change())?) } else { None };
    while input.is_some() || resized.is_some() {
        let message = tokio::select! {
            bytes = next(&mut input) => match bytes {
                Some(bytes) => Input::Stdin(bytes),
                None => {
                    input = None;
                    Input::CloseStdin(CloseStdin {})
                }
            },
            () = changed(&mut resized) => match terminal::size() {
                Some(size) => Input::Resize(size),
                None => continue,
            },
        };
        // The command has ended; its exit code arrives on the other half of the stream.
        if sender.send(request(message)).await.is_err() {
            return Ok(());
        }
    }
    // Never returns, so that the stream of requests stays open until the command ends.
    pending().await
}

async fn next(input: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match input {
        Some(input) => input.recv().await,
        None => pending().await,
    }
}

async fn changed(resized: &mut Option<Signal>) {
    match resized {
        Some(signal) => drop(signal.recv().await),
        None => pending().await,
    }
}

fn listen_to(kind: SignalKind) -> Result<Signal, CliError> {
    signal(kind).map_err(|source| CliError::Terminal { call: "sigaction", source })
}

/// The signals that end the program while the terminal is in raw mode, so that it is restored first.
struct Ends(Option<(Signal, Signal)>);

impl Ends {
    fn new(tty: bool) -> Result<Self, CliError> {
        if !tty {
            return Ok(Self(None));
        }
        Ok(Self(Some((listen_to(SignalKind::terminate())?, listen_to(SignalKind::hangup())?))))
    }

    async fn wait(&mut self) {
        match &mut self.0 {
            None => pending().await,
            Some((terminate, hangup)) => tokio::select! {
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            },
        }
    }
}
