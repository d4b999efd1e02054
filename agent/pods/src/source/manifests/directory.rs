//! The manifest directory as a [`PodSource`].

use std::io;
use std::path::Path;
use std::time::Duration;

use nodewarden_model::Origin;

use super::Manifests;
use super::watch::watch;
use crate::source::{Desired, DesiredSender, PodOrigins, PodSource, SourceGuard, report};

/// The pods of `staticPodPath`.
#[derive(Debug)]
pub struct ManifestSource {
    manifests: Manifests,
    relist: Duration,
    /// What was returned or sent last.
    last: Desired,
}

impl ManifestSource {
    /// `node` goes into the uid of pods that have none; every file is looked at every `relist`
    /// (`fileCheckFrequency`), or each minute where the kernel reports every change.
    pub fn new(dir: &Path, node: &str, relist: Duration) -> Self {
        Self { manifests: Manifests::new(dir, node), relist, last: Desired::default() }
    }

    /// The pods' names end with the node's, as in every cluster.
    #[must_use]
    pub fn named_by_node(mut self) -> Self {
        self.manifests.named_by_node();
        self
    }
}

impl PodSource for ManifestSource {
    fn name(&self) -> &'static str {
        Origin::MANIFESTS
    }

    fn set_running(&mut self, running: &PodOrigins) {
        self.manifests.set_running(running.clone());
    }

    fn snapshot(&mut self) -> Desired {
        self.manifests.scan();
        let desired = self.manifests.desired();
        report("manifests", None, &desired);
        self.last = desired.clone();
        desired
    }

    fn follow(self: Box<Self>, changes: DesiredSender) -> io::Result<SourceGuard> {
        Ok(Box::new(watch(self.manifests, self.last, self.relist, changes)?))
    }
}
