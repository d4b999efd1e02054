//! The manifest directory as a source.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::watch::{report, watch};
use super::{Desired, Manifests, Source, Standing, Tell, Watching};

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
    fn stand(&mut self, standing: Standing) {
        self.manifests.stand(standing);
    }

    fn first(&mut self) -> Desired {
        self.manifests.scan();
        let desired = self.manifests.desired();
        report(None, &desired);
        self.told = desired.clone();
        desired
    }

    fn watch(self: Box<Self>, tell: Tell) -> io::Result<Watching> {
        watch(self.manifests, self.told, self.relist, tell)
    }
}
