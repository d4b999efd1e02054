//! The command line against a real server, and what it says without one.

use clap::{CommandFactory, Parser};

use super::*;
use nodewarden_api::grpc::fixture::Running;

#[test]
fn arguments_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn help_teaches_with_examples() {
    let mut cli = Cli::command();
    assert!(cli.render_long_help().to_string().contains("Examples:"));
    for name in ["agent", "top", "events", "tree", "status", "pods", "images", "gc", "explain", "simulate"] {
        let help = cli.find_subcommand_mut(name).unwrap().render_long_help().to_string();
        assert!(help.contains("Examples:") && help.contains("nodewarden "), "{name}");
    }
}

#[test]
fn wrong_arguments_are_refused_with_what_is_right() {
    for (args, expected) in [
        (vec!["events", "--type", "quake"], "cgroupCreated"),
        (vec!["events", "--since", "soon"], "expected a span like"),
        (vec!["top", "--interval", "0"], "expected seconds from 0.25 to 60"),
        (vec!["top", "--iterations", "0"], "1.."),
        (vec!["simulate", "--signal", "memory.free=1Gi"], "expected one of memory.available"),
        (vec!["explain"], "POD|node"),
    ] {
        let args = std::iter::once("nodewarden").chain(args);
        let text = Cli::try_parse_from(args).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    assert!(Cli::try_parse_from(["nodewarden", "events", "--type", "oom,exit", "--since", "10m"]).is_ok());
}

async fn refusal(socket: &std::path::Path) -> CliError {
    client::connect(socket).await.err().unwrap()
}

#[tokio::test]
async fn says_why_there_is_no_agent() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("n.sock");
    let missing = refusal(&socket).await;
    assert_eq!(missing.exit_status(), 3);
    assert_eq!(
        missing.to_string(),
        format!(
            "no nodewarden agent is running (no socket at {}): start it with `cargo xtask run` or `nodewarden agent`",
            socket.display()
        )
    );
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let dead = refusal(&socket).await;
    assert_eq!(dead.exit_status(), 3);
    assert!(dead.to_string().contains("no process listens"), "{dead}");
    let denied = CliError::connecting(&socket, std::io::ErrorKind::PermissionDenied.into());
    assert_eq!((denied.exit_status(), denied.to_string().contains("sudo")), (4, true));
}

#[tokio::test]
async fn a_connection_outlives_a_restart_of_the_agent() {
    let running = Running::start().await;
    let mut client = client::connect(&running.socket).await.unwrap();
    let status = |mut c: nodewarden_proto::nodewarden::v1::nodewarden_client::NodewardenClient<_>| async move {
        c.get_status(nodewarden_proto::nodewarden::v1::GetStatusRequest {}).await.map(|_| c)
    };
    client = status(client).await.unwrap();
    let socket = running.socket.clone();
    running.stop().await.unwrap();
    assert!(status(client.clone()).await.is_err());
    let dir = tempfile::tempdir().unwrap();
    let journal = nodewarden_storage::journal::Journal::open(
        dir.path(),
        nodewarden_storage::journal::Limits::default(),
    )
    .unwrap();
    let view = std::sync::Arc::new(nodewarden_model::fixture::Node::default());
    std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let again = nodewarden_machine::unix_socket::Socket::claim(&socket).unwrap();
    let server = tokio::spawn(nodewarden_api::grpc::serve_on(
        again,
        view,
        journal,
        Default::default(),
        std::future::pending(),
    ));
    assert!(status(client).await.is_ok());
    server.abort();
    let _ = std::fs::remove_dir_all(socket.parent().unwrap().parent().unwrap());
}
