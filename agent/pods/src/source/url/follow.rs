//! The thread that reads the URL again and again.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nodewarden_tasks::parts::{self, Part};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::read::Request;
use super::state::Served;
use crate::source::{Desired, DesiredSender, report};

/// How long one text may take to be parsed and sent on.
const LIMIT: Duration = Duration::from_secs(300);

/// The thread that reads the URL; it ends when this is dropped.
#[derive(Debug)]
pub struct Following {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts a thread that sends the request at once and then `every` so long after the end of the one before
/// (kubelet `wait.Until`). `changes` is called on it with each value that differs from the one before.
///
/// # Errors
/// The thread or its runtime cannot be created.
pub fn follow(
    request: Request,
    mut served: Served,
    every: Duration,
    changes: DesiredSender,
) -> io::Result<Following> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel();
    let part = parts::register("static pod URL", LIMIT);
    let last = served.desired();
    let run = move || {
        runtime.block_on(async {
            tokio::select! {
                () = repeat(request, served, last, every, changes, &part) => {}
                // The sender is dropped.
                _ = stopped => {}
            }
        });
        // A resolver that hangs is not waited for.
        runtime.shutdown_background();
        part.end();
    };
    let thread = thread::Builder::new().name("static-pod-url".into()).spawn(run)?;
    Ok(Following { stop: Some(stop), thread: Some(thread) })
}

async fn repeat(
    mut request: Request,
    mut served: Served,
    mut last: Desired,
    every: Duration,
    mut send: DesiredSender,
    part: &Part,
) {
    loop {
        part.waits();
        let read = match timeout(super::read::TIME, request.send()).await {
            Ok(read) => read,
            Err(_) => Err(request.too_slow()),
        };
        part.progress();
        served.take(read);
        let desired = served.desired();
        if desired != last {
            report("pods of staticPodURL", Some(&last), &desired);
            last = desired.clone();
            send(desired);
        }
        part.waits();
        tokio::time::sleep(every).await;
    }
}
