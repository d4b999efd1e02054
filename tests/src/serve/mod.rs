//! The servers that probes ask: `nodewarden-e2e serve …`, hidden from users, run in containers. The path of a
//! request says how it is answered. The servers write down every request with its time, and use up memory and
//! processes on demand.

mod answer;
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

pub use answer::Answer;
pub use error::ServeError;
pub use greed::{FORK_SUFFIX, HOLD_SUFFIX, WRITE_SUFFIX};
pub use notes::{LOG_SUFFIX, Noted, Notes, read_notes};

/// Suffix of the name of a file that makes a server exit although `--stay` has not passed.
pub const LEAVE_SUFFIX: &str = "leave";
/// How often a server looks for that file.
const POLL_PERIOD: Duration = Duration::from_millis(20);
/// Length of the queue of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Which servers to start, and how the process exits.
#[derive(Debug, Clone, Parser)]
#[command(name = "serve")]
pub struct Arguments {
    /// Port for HTTP/1.1
    #[arg(long)]
    http: Option<u16>,
    /// Port for HTTPS, with a certificate made at the start
    #[arg(long)]
    https: Option<u16>,
    /// Port for TCP: connections are accepted and nothing is sent
    #[arg(long)]
    tcp: Option<u16>,
    /// Port with a full accept queue: new connections are never established
    #[arg(long)]
    deaf: Option<u16>,
    /// Port for gRPC's health service
    #[arg(long)]
    grpc: Option<u16>,
    /// Use up memory, processes and disk space as the files `NAME.hold`, `NAME.fork` and `NAME.write` in the
    /// directory say
    #[arg(long)]
    greedy: bool,
    /// Directory for the notes, and for files that control the answers
    #[arg(long)]
    folder: PathBuf,
    /// Name of the notes
    #[arg(long)]
    name: String,
    /// Seconds to keep running after SIGTERM, unless the directory has a file `NAME.leave`
    #[arg(long, default_value_t = 0.0)]
    stay: f64,
    /// Exit code after SIGTERM
    #[arg(long, default_value_t = 0)]
    code: u8,
}

/// Runs the servers if the first argument is `serve`; otherwise returns `None`.
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

/// Serves until SIGTERM. Returns the exit code.
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
            tokio::time::sleep(POLL_PERIOD).await;
        }
        notes.add("main", "-", "end");
        Ok(arguments.code)
    })
}

/// Starts every server that has a port. The returned value keeps the accept queue of `--deaf` full.
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

/// Listens on every address, of IPv6 too if the machine has it.
fn listen(port: u16) -> Result<TcpListener, ServeError> {
    let six = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let four = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let bound = TcpSocket::new_v6().and_then(|socket| bound(socket, six));
    // The kernel has no IPv6, or it is disabled in this image.
    bound
        .or_else(|_| TcpSocket::new_v4().and_then(|socket| self::bound(socket, four)))
        .map_err(ServeError::at(four))
}

fn bound(socket: TcpSocket, address: SocketAddr) -> std::io::Result<TcpListener> {
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
