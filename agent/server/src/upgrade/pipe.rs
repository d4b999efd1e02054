//! Two connections joined: what one sends the other gets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

/// Bytes per read.
const CHUNK: usize = 16 << 10;
/// How long the other side may go on after one has ended what it sends.
const LAST: Duration = Duration::from_secs(5);

/// Why two connections were separated.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "shown in the log"))]
pub enum Ended {
    /// One side ended or broke.
    Side(io::Result<()>),
    /// Nothing passed for too long.
    Idle,
}

/// Joins them until the runtime's side ends, until a while after the client's side ended, or until nothing
/// passed for the time `idle`. Both are closed then.
pub async fn run<C, R>(client: C, runtime: R, idle: Option<Duration>) -> Ended
where
    C: AsyncRead + AsyncWrite,
    R: AsyncRead + AsyncWrite,
{
    let ((from_client, to_client), (from_runtime, to_runtime)) =
        (tokio::io::split(client), tokio::io::split(runtime));
    let passed = Passed { begun: Instant::now(), last: Arc::default() };
    let up = async {
        match copy(from_client, to_runtime, &passed).await {
            // The runtime may have more to say.
            Ok(()) => tokio::time::sleep(LAST).await,
            Err(error) => return Err(error),
        }
        Ok(())
    };
    tokio::select! {
        ended = copy(from_runtime, to_client, &passed) => Ended::Side(ended),
        ended = up => Ended::Side(ended),
        () = passed.nothing_for(idle) => Ended::Idle,
    }
}

/// Copies until the end of the input, and ends the output too.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    passed: &Passed,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = from.read(&mut chunk).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        passed.now();
        to.write_all(&chunk[..read]).await?;
        to.flush().await?;
        passed.now();
    }
}

/// When something last passed.
struct Passed {
    begun: Instant,
    /// Milliseconds since `begun`.
    last: Arc<AtomicU64>,
}

impl Passed {
    fn now(&self) {
        let since = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
    }

    /// Completes when nothing has passed for that long.
    async fn nothing_for(&self, idle: Option<Duration>) {
        let Some(idle) = idle else { return std::future::pending().await };
        loop {
            let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
            let until = self.begun + last + idle;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn what_one_sends_the_other_gets_and_the_runtimes_end_is_the_end() {
        let ((mut client, a), (b, mut runtime)) = (duplex(100), duplex(100));
        let joined = tokio::spawn(run(a, b, Some(IDLE)));
        let large = vec![7; 100_000];
        let (sent, got) = tokio::join!(client.write_all(&large), async {
            let mut got = vec![0; large.len()];
            runtime.read_exact(&mut got).await.map(|_| got)
        });
        assert!(sent.is_ok() && got.unwrap() == large);
        runtime.write_all(b"bye").await.unwrap();
        drop(runtime);
        let mut last = String::new();
        client.read_to_string(&mut last).await.unwrap();
        assert_eq!(last, "bye");
        assert!(matches!(joined.await.unwrap(), Ended::Side(Ok(()))));
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_clients_end_the_runtime_may_finish() {
        let ((mut client, a), (b, mut runtime)) = (duplex(100), duplex(100));
        tokio::spawn(run(a, b, None));
        client.write_all(b"last words").await.unwrap();
        client.shutdown().await.unwrap();
        let mut got = String::new();
        runtime.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "last words");
        runtime.write_all(b"answer").await.unwrap();
        let mut got = vec![0; 6];
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(got, b"answer");
        // It may not stay for ever.
        let began = Instant::now();
        assert_eq!(client.read(&mut got).await.unwrap(), 0);
        assert!(began.elapsed() <= LAST);
    }

    #[tokio::test(start_paused = true)]
    async fn streams_through_which_nothing_goes_are_closed() {
        let ((mut client, a), (b, mut runtime)) = (duplex(100), duplex(100));
        let (began, joined) = (Instant::now(), tokio::spawn(run(a, b, Some(IDLE))));
        for _ in 0..5 {
            tokio::time::sleep(IDLE / 2).await;
            client.write_all(b"x").await.unwrap();
            runtime.read_u8().await.unwrap();
        }
        assert!(matches!(joined.await.unwrap(), Ended::Idle));
        assert_eq!(began.elapsed().as_secs(), (IDLE / 2 * 5 + IDLE).as_secs());
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }
}
