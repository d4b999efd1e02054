//! What the runtime reports of containers' writable layers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nodewarden_cri::Client;
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

/// How long a decision waits for the runtime's figures.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the runtime; `None` if it does not answer in time, which is logged.
pub async fn writable_layers(runtime: &Client) -> Option<Layers> {
    match tokio::time::timeout(PATIENCE, runtime.container_stats()).await {
        Err(_) => {
            tracing::warn!(
                "the runtime's figures of writable layers are not known: no answer within {PATIENCE:?}"
            );
            None
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "the runtime's figures of writable layers are not known");
            None
        }
        Ok(Ok(stats)) => {
            let (now, wall) = (Instant::now(), SystemTime::now());
            Some(stats.into_iter().filter_map(|one| of_one(one, now, wall)).collect())
        }
    }
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
}
