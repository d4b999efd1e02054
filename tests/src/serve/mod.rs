//! The servers that are probed: `nodewarden-e2e serve …`, hidden from users, run in containers. They answer as the path of a
//! request says, write down what they were asked and when, and take memory and processes when they are told to.

mod act;
mod error;
mod greed;
mod health;
mod http;
mod notes;
mod tcp;
mod tls;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};

pub use act::Act;
pub use error::ServeError;
pub use greed::{FORK_SUFFIX, HOLD_SUFFIX};
pub use notes::{LOG_SUFFIX, Noted, Notes, read_notes};

/// What the name of a file ends in that lets a server leave that would stay.
pub const LEAVE_SUFFIX: &str = "leave";
/// Between two looks for it.
const LOOKS: Duration = Duration::from_millis(20);
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Where it listens and how it ends.
#[derive(Debug, Clone, Parser)]
#[command(name = "serve")]
pub struct Arguments {
    /// HTTP/1.1
    #[arg(long)]
    http: Option<u16>,
    /// The same over TLS, with a certificate made at the start
    #[arg(long)]
    https: Option<u16>,
    /// Accepts, and says nothing
    #[arg(long)]
    tcp: Option<u16>,
    /// Listens, and never accepts: who connects waits
    #[arg(long)]
    deaf: Option<u16>,
    /// gRPC's health service
    #[arg(long)]
    grpc: Option<u16>,
    /// Takes memory and processes as files in the folder say: `NAME.hold`, `NAME.fork`
    #[arg(long)]
    greedy: bool,
    /// Where it writes what it was asked, and where files are that say how it answers
    #[arg(long)]
    folder: PathBuf,
    /// What its notes are called
    #[arg(long)]
    name: String,
    /// Seconds that it goes on after SIGTERM, unless there is a file `NAME.leave` in the folder
    #[arg(long, default_value_t = 0.0)]
    stay: f64,
    /// How it exits after SIGTERM
    #[arg(long, default_value_t = 0)]
    code: u8,
}

/// Runs the servers if the command line asks for them.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != "serve" {
        return None;
    }
    let name = std::ffi::OsString::from("serve");
    let arguments = Arguments::parse_from(std::iter::once(name).chain(arguments));
    Some(match serve(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("serve: {error}");
            ExitCode::from(99)
        }
    })
}

/// Serves until SIGTERM: with which code to exit.
fn serve(arguments: Arguments) -> Result<u8, ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(ServeError::system("start a runtime"))?.block_on(async {
        let mut end = signal(SignalKind::terminate()).map_err(ServeError::system("sigaction"))?;
        let notes = Arc::new(Notes::open(&arguments.folder, &arguments.name)?);
        let _held = start(&arguments, &notes).await?;
        if arguments.greedy {
            greed::start(&arguments.folder, &arguments.name, notes.clone())?;
        }
        notes.add("main", "-", "started");
        end.recv().await;
        notes.add("main", "-", "term");
        let until = Instant::now() + Duration::from_secs_f64(arguments.stay.max(0.0));
        let leave = arguments.folder.join(format!("{}.{LEAVE_SUFFIX}", arguments.name));
        while Instant::now() < until && !leave.exists() {
            tokio::time::sleep(LOOKS).await;
        }
        notes.add("main", "-", "end");
        Ok(arguments.code)
    })
}

/// Starts every server that is asked for. What is returned keeps the deaf one's line full.
async fn start(arguments: &Arguments, notes: &Arc<Notes>) -> Result<Option<tcp::Deaf>, ServeError> {
    if let Some(port) = arguments.http {
        tokio::spawn(http::serve(listen(port)?, notes.clone()));
    }
    if let Some(port) = arguments.https {
        tokio::spawn(tls::serve(listen(port)?, tls::acceptor()?, notes.clone()));
    }
    if let Some(port) = arguments.tcp {
        tokio::spawn(tcp::serve(listen(port)?, notes.clone()));
    }
    if let Some(port) = arguments.grpc {
        tokio::spawn(health::serve(listen(port)?, notes.clone()));
    }
    Ok(match arguments.deaf {
        Some(port) => Some(tcp::Deaf::new(port).await?),
        None => None,
    })
}

/// On every address, of IPv6 too where the machine has it.
fn listen(port: u16) -> Result<TcpListener, ServeError> {
    let six = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let four = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let bound = TcpSocket::new_v6().and_then(|socket| bound(socket, six));
    // A kernel without IPv6, or an image in which it is switched off.
    bound
        .or_else(|_| TcpSocket::new_v4().and_then(|socket| self::bound(socket, four)))
        .map_err(ServeError::at(four))
}

fn bound(socket: TcpSocket, address: SocketAddr) -> std::io::Result<TcpListener> {
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
