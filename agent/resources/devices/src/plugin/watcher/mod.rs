//! The plugin watcher: finds plugins by their sockets in a directory (pluginregistration v1).
//!
//! inotify wakes it, also when it has lost events, and each time it scans the whole directory (`scan`); it
//! also scans every five minutes. What has changed is decided by `known`, which is pure. Each socket has its
//! own task (`socket`).

mod known;
mod scan;
mod socket;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_config::DeviceSettings;
use nodewarden_tasks::pause::every;
use tokio::task::{AbortHandle, JoinSet};
use tracing::debug;

use super::registry::Registry;
use known::KnownSockets;
use scan::Tree;

/// The longest time between scans without an inotify event.
const REGULAR: Duration = Duration::from_secs(300);
/// The same if the directory does not exist, or inotify is not available.
const BLIND: Duration = Duration::from_secs(1);
/// How long to wait for further events before a scan.
const BURST: Duration = Duration::from_millis(10);

/// Registers the plugins in the directory as long as their sockets exist. Never returns.
pub async fn watch(settings: DeviceSettings, registry: Arc<Registry>) {
    let mut tree = Tree::new(settings.registry_dir());
    let mut known = KnownSockets::default();
    let mut tasks = JoinSet::new();
    let mut by_path: HashMap<PathBuf, AbortHandle> = HashMap::new();
    loop {
        // None: a fault of the agent, which the log has. What was found before stays.
        let Some(found) = tree.scan().await else {
            tokio::time::sleep(BLIND).await;
            continue;
        };
        let changes = known.update(found);
        for path in changes.gone {
            debug!("plugin socket {} is gone", path.display());
            if let Some(task) = by_path.remove(&path) {
                task.abort();
            }
        }
        for path in changes.new {
            debug!("plugin socket {}", path.display());
            let task = socket::serve(path.clone(), settings.kubelet_dir.clone(), registry.clone());
            by_path.insert(path, tasks.spawn(task));
        }
        while tasks.try_join_next().is_some() {}
        let until = every(if tree.is_watched() { REGULAR } else { BLIND });
        // Both outcomes lead to another scan.
        if tokio::time::timeout_at(until.into(), tree.changed()).await.is_ok() {
            tokio::time::sleep(BURST).await;
        }
    }
}
