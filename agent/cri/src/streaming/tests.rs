//! Commands in a container of a real containerd. Skipped without containerd.

use std::time::Duration;

use tokio::sync::mpsc;

use super::*;
use crate::containerd_fixture::{Containerd, container_config, sandbox_config};
use crate::logs::Stream;

struct Session {
    sender: mpsc::Sender<ExecInput>,
    pieces: mpsc::Receiver<Piece>,
    ended: tokio::task::JoinHandle<Result<i32, ExecError>>,
}

fn start(client: &Client, id: &str, script: &str, stdin: bool, tty: bool) -> Session {
    let command = ["/bin/busybox", "sh", "-c", script].map(String::from).to_vec();
    let command = ExecCommand { container_id: id.into(), command, stdin, tty };
    let (sender, input) = mpsc::channel(4);
    let (output, pieces) = mpsc::channel(4);
    let client = client.clone();
    let ended = tokio::spawn(async move { client.exec(&command, input, output).await });
    Session { sender, pieces, ended }
}

impl Session {
    /// Exit code, stdout and stderr.
    async fn end(mut self) -> (Result<i32, String>, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let all = async {
            while let Some(piece) = self.pieces.recv().await {
                match piece.stream {
                    Stream::Stdout => out.extend(piece.bytes),
                    Stream::Stderr => err.extend(piece.bytes),
                }
            }
            self.ended.await.unwrap().map_err(|e| e.to_string())
        };
        let code =
            tokio::time::timeout(Duration::from_secs(20), all).await.expect("the command does not end");
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    async fn until(&mut self, text: &str) -> String {
        let mut out = String::new();
        while !out.contains(text) {
            let piece = tokio::time::timeout(Duration::from_secs(20), self.pieces.recv()).await;
            out += &String::from_utf8(piece.expect(&out).expect(&out).bytes).unwrap();
        }
        out
    }

    /// Sends lines until the output contains `text`, because a change of size and typed input are not
    /// ordered.
    async fn asked_until(&mut self, text: &str) {
        let mut out = String::new();
        for _ in 0..30 {
            self.sender.send(ExecInput::Stdin(b"\n".to_vec())).await.unwrap();
            while let Ok(Some(piece)) =
                tokio::time::timeout(Duration::from_millis(500), self.pieces.recv()).await
            {
                out += &String::from_utf8(piece.bytes).unwrap();
                if out.contains(text) {
                    return;
                }
            }
        }
        panic!("no {text:?} in {out:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_exit_codes_input_and_terminals() {
    let Some(containerd) = Containerd::start() else { return };
    if !containerd.import_image() {
        return;
    }
    let client = Client::new(&containerd.endpoint());
    let uid = "4f0b9a8e-32a4-4d0c-8a35-1d6b0f1c9d22";
    let pod = sandbox_config("web-0", uid, &format!("{}/pod{uid}", containerd.cgroup_root()));
    let sandbox = client.run_sandbox(pod.clone()).await.unwrap();
    let id = client.create_container(&sandbox, container_config("main"), pod).await.unwrap();
    client.start_container(&id).await.unwrap();

    // Without input: both streams, the exit code, a signal, a missing program.
    let ended = start(&client, &id, "echo out; echo err >&2; exit 3", false, false).end().await;
    assert_eq!(ended, (Ok(3), "out\n".into(), "err\n".into()));
    assert_eq!(start(&client, &id, "kill -9 $$", false, false).end().await.0, Ok(137));
    let none = ExecCommand { container_id: id.clone(), command: vec!["/none".into()], ..Default::default() };
    let ((_sender, input), (output, _pieces)) = (mpsc::channel(1), mpsc::channel(1));
    let error = client.exec(&none, input, output).await.unwrap_err();
    assert!(matches!(&error, ExecError::NotRun { message } if message.contains("/none")), "{error}");
    // Output arrives while the command runs.
    let mut session = start(&client, &id, "echo first; sleep 600", false, false);
    assert_eq!(session.until("\n").await, "first\n");
    session.ended.abort();

    // Input that ends, so that a command that reads all of it ends too; in both directions more than buffers
    // hold.
    let session = start(&client, &id, "cat; echo done >&2; exit 4", true, false);
    session.sender.send(ExecInput::Stdin(b"hello\n".to_vec())).await.unwrap();
    session.sender.send(ExecInput::Close).await.unwrap();
    assert_eq!(session.end().await, (Ok(4), "hello\n".into(), "done\n".into()));
    let much = "0123456789abcde\n".repeat(256 << 10);
    let session = start(&client, &id, "cat", true, false);
    let (sender, sent) = (session.sender.clone(), much.clone());
    let feeding = tokio::spawn(async move {
        for part in sent.as_bytes().chunks(100_000) {
            sender.send(ExecInput::Stdin(part.to_vec())).await.unwrap();
        }
        sender.send(ExecInput::Close).await.unwrap();
    });
    let (code, out, _) = session.end().await;
    assert!(code == Ok(0) && out == much, "{code:?}, {} of {} bytes", out.len(), much.len());
    feeding.await.unwrap();
    // The command ends before its input.
    assert_eq!(start(&client, &id, "exit 5", true, false).end().await.0, Ok(5));

    // A terminal: its size, a change of the size, typed input, the end of input.
    let mut session = start(&client, &id, "while read x; do stty size; done; exit 6", true, true);
    session.sender.send(ExecInput::Resize { columns: 80, rows: 24 }).await.unwrap();
    session.asked_until("24 80").await;
    session.sender.send(ExecInput::Resize { columns: 132, rows: 43 }).await.unwrap();
    session.asked_until("43 132").await;
    session.sender.send(ExecInput::Stdin(vec![4])).await.unwrap();
    assert_eq!(session.end().await.0, Ok(6));

    client.remove_sandbox(&sandbox).await.unwrap();
}
