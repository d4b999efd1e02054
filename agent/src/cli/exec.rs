//! `nodewarden exec`: a command in a container.

use std::future::pending;
use std::io::{self, Write};

use clap::Args;
use nodewarden_proto::nodewarden::v1::exec_request::Message as Told;
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
No shell is put before the command: for pipes and variables run one. The exit
status is the command's, or 1 when it could not be run. With -i the command
reads what comes in here, and its end. Ctrl-C without -t ends this program;
the command in the container goes on until it ends, or writes.

Examples:
  nodewarden exec shop/cart -- cat /etc/hosts
  nodewarden exec -it cart -- sh                          a shell, until exit or Ctrl-D
  nodewarden exec -c mesh cart -- sh -c 'ps | wc -l'
  tar -c files | nodewarden exec -i cart -- tar -x -C /tmp")]
pub struct ExecArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Pass standard input on to the command
    #[arg(long, short = 'i')]
    stdin: bool,
    /// Give the command a terminal; needs -i, and a terminal here
    #[arg(long, short = 't')]
    tty: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub async fn run(args: ExecArgs) -> Result<(), CliError> {
    let ExecArgs { target, stdin, tty, command } = args;
    let tty = tty && {
        // As kubectl does it.
        if stdin && !terminal::is_input() {
            eprintln!("Unable to use a TTY - input is not a terminal or the right kind of file");
        }
        stdin && terminal::is_input()
    };
    let mut client = target.connect().await?;
    let (told, requests) = mpsc::channel(16);
    let start = ExecStart {
        pod: target.pod(),
        container: target.container(),
        command,
        stdin,
        tty,
        size: if tty { terminal::size() } else { None },
    };
    let _room = told.send(request(Told::Start(start))).await;
    let refused = target::refused(&target);
    let mut answers = client.exec(ReceiverStream::new(requests)).await.map_err(&refused)?.into_inner();
    let mut ends = Ends::new(tty)?;
    // From the first answer on: until then Ctrl-C is the user's.
    let mut raw = None;
    let feed = async {
        feed(told, stdin, tty).await?;
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

fn request(message: Told) -> ExecRequest {
    ExecRequest { message: Some(message) }
}

/// Passes on what is typed or piped in, and the terminal's changes of size.
async fn feed(told: mpsc::Sender<ExecRequest>, stdin: bool, tty: bool) -> Result<(), CliError> {
    let mut input = if stdin { Some(terminal::input()) } else { None };
    let mut resized = if tty { Some(listen_to(SignalKind::window_change())?) } else { None };
    while input.is_some() || resized.is_some() {
        let message = tokio::select! {
            bytes = next(&mut input) => match bytes {
                Some(bytes) => Told::Stdin(bytes),
                None => {
                    input = None;
                    Told::CloseStdin(CloseStdin {})
                }
            },
            () = changed(&mut resized) => match terminal::size() {
                Some(size) => Told::Resize(size),
                None => continue,
            },
        };
        // The command has ended: how, is being told.
        if told.send(request(message)).await.is_err() {
            return Ok(());
        }
    }
    // Kept open: the end of the messages would be no news.
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

/// The signals that end the program while the terminal is not as it was: it is restored first.
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
