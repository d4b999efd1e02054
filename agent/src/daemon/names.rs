//! Names for identities: from the container runtime if one is configured, else the ids stand.

use std::sync::Arc;

use nodewarden_config::Endpoint;
use nodewarden_cri as runtime;
use nodewarden_cri::State;
use nodewarden_model::Identity;

/// The source of names.
#[derive(Debug)]
pub struct Names(Option<runtime::Names>);

impl Names {
    /// Must be called inside a tokio runtime, which asks the container runtime from then on.
    pub fn new(endpoint: Option<&Endpoint>) -> Self {
        Self(endpoint.map(runtime::Names::new))
    }

    /// The identity with the names known now; the same `Arc` when there are none. Never waits.
    pub fn name(&self, identity: &Arc<Identity>) -> Arc<Identity> {
        match &self.0 {
            Some(names) => names.name(identity),
            None => identity.clone(),
        }
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
    fn says_where_names_come_from() {
        assert_eq!(Names::new(None).describe(), "none configured");
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
    fn without_a_runtime_the_ids_stand() {
        let identity = Arc::new(Identity::Other);
        assert!(Arc::ptr_eq(&Names::new(None).name(&identity), &identity));
    }
}
