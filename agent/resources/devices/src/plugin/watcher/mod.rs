//! The plugin watcher: plugins that are found by their sockets in a directory (pluginregistration v1).
//!
//! inotify wakes, and every wake looks at the whole directory anew, as a slow look does that stands behind it (`scan`).
//! What is different goes by `seen`, which is pure. Each socket has a task of its own (`socket`).

mod scan;
mod seen;
mod socket;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tracing::debug;

use super::registry::Registry;
use nodewarden_config::DeviceSettings;
use scan::Tree;
use seen::Seen;

/// A look at everything that nothing has called for.
const REGULAR: Duration = Duration::from_secs(60);
/// The same where there is no directory, or inotify is not to be had.
const BLIND: Duration = Duration::from_secs(1);
/// How long more and more may come before it is looked at.
const BURST: Duration = Duration::from_millis(10);

/// Registers the plugins in the directory while their sockets are there. Never returns.
pub async fn watch(settings: DeviceSettings, registry: Arc<Registry>) {
    let mut tree = Tree::new(settings.registry_dir());
    let mut seen = Seen::default();
    let mut lives = JoinSet::new();
    let mut by_path: HashMap<PathBuf, AbortHandle> = HashMap::new();
    loop {
        let found = tree.scan();
        let difference = seen.update(found);
        for path in difference.gone {
            debug!("plugin socket {} is gone", path.display());
            if let Some(life) = by_path.remove(&path) {
                life.abort();
            }
        }
        for path in difference.new {
            debug!("plugin socket {}", path.display());
            let life = socket::life(path.clone(), settings.kubelet_dir.clone(), registry.clone());
            by_path.insert(path, lives.spawn(life));
        }
        while lives.try_join_next().is_some() {}
        let every = if tree.is_watched() { REGULAR } else { BLIND };
        // Both outcomes mean to look again.
        let _ = tokio::time::timeout(every, tree.changed()).await;
        tokio::time::sleep(BURST).await;
    }
}
