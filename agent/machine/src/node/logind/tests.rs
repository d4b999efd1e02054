//! The client of logind against a stand-in on a private bus: a test must not shut the machine down.

use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

use tokio::io::AsyncReadExt;
use zbus::{Fd, MessageStream, Variant};

use super::*;

#[test]
fn the_drop_in_has_whole_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("logind.conf.d");
    write_drop_in(&directory, Duration::from_millis(30_500)).unwrap();
    let text = fs::read_to_string(directory.join(DROP_IN)).unwrap();
    assert!(text.ends_with("[Login]\nInhibitDelayMaxSec=31\n"), "{text}");
    write_drop_in(&directory, Duration::from_secs(31)).unwrap();
}

/// A bus of its own; ended when it is dropped.
struct Bus {
    daemon: Child,
    address: String,
    _directory: tempfile::TempDir,
}

impl Bus {
    fn start() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("bus");
        let address = format!("unix:path={}", socket.display());
        let daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", "--address", &address])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let bus = Self { daemon, address, _directory: directory };
        for _ in 0..200 {
            if socket.exists() {
                return Some(bus);
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        None
    }

    async fn connect(&self) -> Connection {
        Builder::address(self.address.as_str()).build().await.unwrap()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Answers as logind does. The write ends of the inhibitors' pipes are closed when they are dropped.
async fn stand_in(connection: Connection, locks: tokio::sync::mpsc::UnboundedSender<std::os::fd::OwnedFd>) {
    let mut calls = MessageStream::from(&connection);
    connection.request_name(SERVICE).await.unwrap();
    while let Some(Ok(call)) = calls.next().await {
        let header = call.header();
        match header.member().map(|member| member.as_str()) {
            Some("Get") => {
                let delay = Variant::from(5_000_000_u64);
                connection.reply(&header, &delay).await.unwrap();
            }
            Some("Inhibit") => {
                let (what, _, _, mode): (String, String, String, String) = call.body().deserialize().unwrap();
                assert_eq!((what.as_str(), mode.as_str()), ("shutdown", "delay"));
                let (theirs, ours) = io::pipe().unwrap();
                connection.reply(&header, &Fd::from(ours.as_fd())).await.unwrap();
                locks.send(theirs.into()).unwrap();
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_shutdown_is_delayed_while_the_inhibitor_is_held() {
    let Some(bus) = Bus::start() else { return nodewarden_testing::skip("there is no dbus-daemon") };
    let (locks, mut held) = tokio::sync::mpsc::unbounded_channel();
    let server = bus.connect().await;
    let answering = tokio::spawn(stand_in(server.clone(), locks));
    let logind = Logind(bus.connect().await);
    for _ in 0..100 {
        if logind.longest_delay().await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(logind.longest_delay().await.unwrap(), Duration::from_secs(5));
    logind.allow_delay(Duration::from_secs(5)).await.unwrap();
    let mut announcements = logind.announcements().await.unwrap();
    let inhibitor = logind.inhibit("a test", "to see").await.unwrap();
    let lock = held.recv().await.unwrap();
    let mut lock = tokio::net::unix::pipe::Receiver::from_owned_fd(lock).unwrap();
    let mut byte = [0];
    assert!(timeout(Duration::from_millis(100), lock.read(&mut byte)).await.is_err(), "it is held");
    for begins in [true, false] {
        server.emit_signal(None::<&str>, OBJECT, MANAGER, "PrepareForShutdown", &begins).await.unwrap();
        assert_eq!(announcements.next().await.unwrap(), begins);
    }
    drop(inhibitor);
    let released = timeout(Duration::from_secs(5), lock.read(&mut byte)).await;
    assert_eq!(released.expect("it is released").unwrap(), 0);
    answering.abort();
}
