//! Which sandboxes and containers of the runtime are the agent's.

use nodewarden_cri::Labels;

use super::labels::{OWNER, POD_UID};

/// Whose sandboxes and containers the agent treats as its own: those with its label ([`OWNER`]) and, on the
/// node of a cluster, those of the kubelet in whose place it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    owner: String,
    /// Those of a kubelet too: they have no owner's label.
    kubelets: bool,
}

impl Ownership {
    /// `owner`: the value of this agent's label. `kubelets`: the agent takes over what a kubelet ran.
    pub fn new(owner: String, kubelets: bool) -> Self {
        Self { owner, kubelets }
    }

    /// The value of this agent's label.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Whether a kubelet's are taken over.
    pub fn includes_kubelets(&self) -> bool {
        self.kubelets
    }

    /// Whether a sandbox or container with these labels is the agent's.
    pub fn has(&self, labels: &Labels) -> bool {
        match labels.get(OWNER) {
            Some(owner) => *owner == self.owner,
            None => self.kubelets && is_kubelets(labels),
        }
    }
}

/// Whether a kubelet made the sandbox or container with these labels.
pub fn is_kubelets(labels: &Labels) -> bool {
    !labels.contains_key(OWNER) && labels.contains_key(POD_UID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelets_containers_are_only_taken_over_where_that_is_asked_for() {
        let [own, other, kubelets, foreign] = [
            Labels::from([(POD_UID, "u"), (OWNER, "me")]),
            Labels::from([(POD_UID, "u"), (OWNER, "other")]),
            Labels::from([(POD_UID, "u")]),
            Labels::from([("app", "u")]),
        ];
        for (takes_over, expected) in
            [(false, [true, false, false, false]), (true, [true, false, true, false])]
        {
            let ownership = Ownership::new("me".into(), takes_over);
            assert_eq!([&own, &other, &kubelets, &foreign].map(|one| ownership.has(one)), expected);
        }
    }
}
