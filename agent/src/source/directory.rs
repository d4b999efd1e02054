//! The manifest directory as a source.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::watch::report;
use super::{Desired, Manifests, Source, Tell, Watching, watch};

/// `staticPodPath`.
#[derive(Debug)]
pub struct Directory {
    manifests: Manifests,
    relist: Duration,
    told: Desired,
}

impl Directory {
    /// `node` goes into the uid of pods that have none; everything is listed anew every `relist`
    /// (`fileCheckFrequency`).
    pub fn new(dir: &Path, node: &str, relist: Duration) -> Self {
        Self { manifests: Manifests::new(dir, node), relist, told: Desired::default() }
    }
}

impl Source for Directory {
    fn first(&mut self) -> Desired {
        let desired = self.manifests.scan();
        report(None, &desired);
        self.told = desired.clone();
        desired
    }

    fn watch(self: Box<Self>, tell: Tell) -> io::Result<Watching> {
        watch(self.manifests, self.told, self.relist, tell)
    }
}
