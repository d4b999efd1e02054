//! What the runtime reports of containers' writable layers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nodewarden_cri::{Client, Question};
use nodewarden_proto::runtime::v1 as cri;

/// A figure of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerStats {
    /// Bytes.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
    /// When the runtime read it. Its clock is this machine's, and may be set.
    pub read: Instant,
}

impl LayerStats {
    /// How old the figure is.
    pub fn age(&self) -> Duration {
        self.read.elapsed()
    }
}

/// The runtime's figures by container id.
pub type Layers = BTreeMap<String, LayerStats>;

/// How long a decision waits for the runtime's figures. The question goes on; it has the time limit of
/// calls.
const PATIENCE: Duration = Duration::from_secs(5);
/// An answer that came late serves a later decision for this time (containerd collects every 10 s).
const RECENT: Duration = Duration::from_secs(30);

/// The question to the runtime for its figures; the answer is `None` if it failed.
pub type LayersQuestion = Question<Option<Layers>>;

/// Asks the runtime; `None` if it does not answer in time and did not lately, which is logged.
pub async fn writable_layers(question: &LayersQuestion, runtime: &Client) -> Option<Layers> {
    ask(question, runtime, PATIENCE).await
}

async fn ask(question: &LayersQuestion, runtime: &Client, patience: Duration) -> Option<Layers> {
    let runtime = runtime.clone();
    let answer = question.ask(patience, || async move {
        match runtime.container_stats().await {
            Err(error) => {
                tracing::warn!(%error, "the runtime's figures of writable layers are not known");
                None
            }
            Ok(stats) => {
                let (now, wall) = (Instant::now(), SystemTime::now());
                Some(stats.into_iter().filter_map(|one| of_one(one, now, wall)).collect())
            }
        }
    });
    let answer = answer.await.filter(|answer| answer.current || answer.at.elapsed() <= RECENT);
    if answer.is_none() {
        tracing::warn!("the runtime's figures of writable layers are not known: no answer in {patience:?}");
    }
    answer?.value.as_ref().clone()
}

fn of_one(stats: cri::ContainerStats, now: Instant, wall: SystemTime) -> Option<(String, LayerStats)> {
    let layer = stats.writable_layer?;
    let number = |value: Option<cri::UInt64Value>| value.map_or(0, |value| value.value);
    let read = UNIX_EPOCH.checked_add(Duration::from_nanos(u64::try_from(layer.timestamp).ok()?))?;
    // A time in the future is that of a clock that was set back: the age is not known then.
    let age = wall.duration_since(read).unwrap_or(Duration::MAX);
    let read = now.checked_sub(age)?;
    let used = LayerStats { bytes: number(layer.used_bytes), inodes: number(layer.inodes_used), read };
    Some((stats.attributes?.id, used))
}

#[cfg(test)]
mod tests {
    use nodewarden_cri::runtime_fixture::{self, FakeRuntime};
    use tonic::Status;

    use super::*;

    #[test]
    fn figures_carry_their_age() {
        let (now, wall) = (Instant::now(), SystemTime::now());
        let stats = |timestamp: SystemTime| cri::ContainerStats {
            attributes: Some(cri::ContainerAttributes { id: "c".into() }),
            writable_layer: Some(cri::FilesystemUsage {
                timestamp: timestamp.duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64,
                used_bytes: Some(cri::UInt64Value { value: 7 }),
                ..Default::default()
            }),
        };
        let second = Duration::from_secs(1);
        let (id, found) = of_one(stats(wall - second), now, wall).unwrap();
        assert_eq!((id.as_str(), found.bytes, found.inodes), ("c", 7, 0));
        assert!(found.age() >= second && found.age() < 2 * second, "{:?}", found.age());
        assert_eq!(of_one(stats(wall + 9 * second), now, wall), None, "from a clock that was set back");
        assert_eq!(of_one(cri::ContainerStats { writable_layer: None, ..stats(wall) }, now, wall), None);
    }

    /// A runtime whose figures take this long.
    struct Slow(Duration);

    #[tonic::async_trait]
    impl FakeRuntime for Slow {
        async fn list_container_stats(
            &self,
            _: cri::ListContainerStatsRequest,
        ) -> Result<cri::ListContainerStatsResponse, Status> {
            tokio::time::sleep(self.0).await;
            let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
            let stats = cri::ContainerStats {
                attributes: Some(cri::ContainerAttributes { id: "c".into() }),
                writable_layer: Some(cri::FilesystemUsage {
                    timestamp: i64::try_from(timestamp).unwrap(),
                    ..Default::default()
                }),
            };
            Ok(cri::ListContainerStatsResponse { stats: vec![stats] })
        }
    }

    /// A runtime with many containers may need longer than a decision waits, each time.
    #[tokio::test]
    async fn an_answer_that_comes_late_serves_the_next_decision() {
        let dir = tempfile::tempdir().unwrap();
        let (patience, takes) = (Duration::from_millis(50), Duration::from_millis(400));
        let client = runtime_fixture::serve(Slow(takes), &dir.path().join("cri.sock"));
        let question = LayersQuestion::default();
        assert_eq!(ask(&question, &client, patience).await, None, "not in time");
        tokio::time::sleep(2 * takes).await;
        let layers = ask(&question, &client, patience).await.unwrap();
        assert!(layers.contains_key("c"));
        // The question itself has the limit of calls.
        let limited = client.clone().with_request_limit(takes / 4);
        assert_eq!(ask(&LayersQuestion::default(), &limited, 20 * takes).await, None);
    }
}
