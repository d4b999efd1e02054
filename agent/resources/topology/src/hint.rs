//! From which NUMA nodes a resource could be given.

use std::collections::BTreeMap;
use std::fmt;

use crate::NodeSet;

/// NUMA nodes from which a resource can be given (`topologymanager.TopologyHint`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hint {
    /// The nodes; `None`: any.
    pub affinity: Option<NodeSet>,
    /// Whether no fewer nodes would do.
    pub preferred: bool,
}

impl Hint {
    /// Any node will do.
    pub const ANY: Self = Self { affinity: None, preferred: true };

    /// These nodes.
    pub fn of(nodes: NodeSet, preferred: bool) -> Self {
        Self { affinity: Some(nodes), preferred }
    }
}

/// The list of nodes or `any`, with `*` behind it when preferred.
impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.affinity {
            None => write!(f, "any")?,
            Some(nodes) if nodes.is_empty() => write!(f, "empty")?,
            Some(nodes) => nodes.fmt(f)?,
        }
        if self.preferred { write!(f, "*") } else { Ok(()) }
    }
}

/// The hints of one provider by resource. No entry for a resource, or `None`: it does not matter where the
/// resource comes from. An empty list: the resource cannot be aligned at all.
pub type Hints = BTreeMap<String, Option<Vec<Hint>>>;
