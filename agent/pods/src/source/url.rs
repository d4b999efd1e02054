//! The pods that a web server has (`staticPodURL`), as a [`PodSource`]; the kubelet's
//! pkg/kubelet/config/http.go.
//!
//! One GET after the other reads a manifest: a Pod, or a PodList or List of them, in YAML or JSON. What
//! cannot be read (no answer, a status other than 200, an empty text, a pod that is not valid) ends no pod:
//! those of the last text stay. An empty list ends them all. (A kubelet ends them after an empty text too.)
//!
//! [`read`] sends the request, `state` (pure) is what is known, `follow` the thread that asks again and
//! again.

mod follow;
mod read;
mod state;
#[cfg(test)]
mod tests;

use std::io;

use super::{Desired, DesiredSender, PodOrigins, PodSource, SourceGuard};
use nodewarden_config::StaticPodUrl;
use nodewarden_model::Origin;

use follow::follow;
use read::Request;
use state::Served;

/// The pods of `staticPodURL`.
#[derive(Debug)]
pub struct UrlSource {
    request: Request,
    settings: StaticPodUrl,
    served: Served,
}

impl UrlSource {
    /// The source that `settings` ask for; `None` if they have no URL. With the name of a `node` the pods'
    /// names end with it, as in every cluster.
    pub fn new(settings: &StaticPodUrl, node: Option<&str>) -> Option<Self> {
        let url = settings.url.as_deref()?;
        let served = Served::new(url, node);
        Some(Self { request: Request::new(url, &settings.headers), settings: settings.clone(), served })
    }
}

impl PodSource for UrlSource {
    fn name(&self) -> &'static str {
        Origin::HTTP
    }

    fn set_running(&mut self, running: &PodOrigins) {
        self.served.set_running(running.clone());
    }

    /// The server is not waited for: pods that run stay until it has answered.
    fn snapshot(&mut self) -> Desired {
        self.served.desired()
    }

    fn follow(self: Box<Self>, changes: DesiredSender) -> io::Result<SourceGuard> {
        let Self { request, settings, served } = *self;
        Ok(Box::new(follow(request, served, settings.check_frequency, changes)?))
    }
}
