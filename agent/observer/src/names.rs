//! Names of pods and containers: from the container runtime if one is configured, else their ids are shown.

use std::sync::Arc;
use std::time::Duration;

use nodewarden_config::Endpoint;
use nodewarden_cri::{self as cri, Named, SharedList, State};
use nodewarden_model::Identity;

/// Where names come from.
#[derive(Debug)]
pub struct Names(Option<cri::Names>);

impl Names {
    /// Names of the container runtime at `endpoint`, which is asked in the background, each time for at most
    /// `limit`. Must be called inside a tokio runtime.
    pub fn new(endpoint: Option<&Endpoint>, limit: Duration) -> Self {
        Self(endpoint.map(|endpoint| cri::Names::new(endpoint, limit)))
    }

    /// `identity` with the names that are known now; the same `Arc` if there are none. Never waits.
    pub fn name(&self, identity: &Arc<Identity>) -> Arc<Identity> {
        match &self.0 {
            Some(names) => names.name(identity),
            None => identity.clone(),
        }
    }

    /// As [`Self::name`]; takes less time if `last` is what this returned for the same identity before.
    pub(crate) fn name_again(&self, identity: &Arc<Identity>, last: &mut Option<Named>) -> Arc<Identity> {
        match &self.0 {
            Some(names) => names.name_again(identity, last),
            None => identity.clone(),
        }
    }

    /// The name that the runtime gives itself; `None` until it has answered once.
    pub fn runtime_name(&self) -> Option<String> {
        self.0.as_ref().and_then(cri::Names::runtime_name)
    }

    /// The lists of the runtime that other parts may share with the names; `None` if none is configured.
    pub fn shared_list(&self) -> Option<&SharedList> {
        self.0.as_ref().map(cri::Names::shared_list)
    }

    /// For the status: the runtime and its endpoint, or why there are no names.
    pub fn describe(&self) -> String {
        match &self.0 {
            Some(names) => text(&names.state(), names.endpoint()),
            None => "none configured".to_owned(),
        }
    }
}

fn text(state: &State, endpoint: &Endpoint) -> String {
    match state {
        State::Asking => format!("asking {endpoint}"),
        State::Reached(version) => format!("{version} at {endpoint}"),
        State::Away(cause) => format!("not reachable at {endpoint}: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_cri::Version;

    #[test]
    fn the_status_names_the_runtime_or_why_there_are_no_names() {
        assert_eq!(Names::new(None, Duration::ZERO).describe(), "none configured");
        let endpoint = Endpoint::parse("/run/c.sock").unwrap();
        let version = Version { name: "containerd".into(), version: "1.6.20".into() };
        for (state, expected) in [
            (State::Asking, "asking unix:///run/c.sock"),
            (State::Reached(version), "containerd 1.6.20 at unix:///run/c.sock"),
            (State::Away("Version: gone".into()), "not reachable at unix:///run/c.sock: Version: gone"),
        ] {
            assert_eq!(text(&state, &endpoint), expected);
        }
    }

    #[test]
    fn without_a_runtime_identities_stay_as_they_are() {
        let identity = Arc::new(Identity::Other);
        assert!(Arc::ptr_eq(&Names::new(None, Duration::ZERO).name(&identity), &identity));
    }
}
