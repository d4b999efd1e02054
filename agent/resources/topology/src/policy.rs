//! `topologyManagerPolicy`, `topologyManagerScope` and `topologyManagerPolicyOptions`.

use std::collections::BTreeMap;

/// With how many NUMA nodes the topology manager works unless `max-allowable-numa-nodes` allows more
/// (`defaultMaxAllowableNUMANodes`).
const MOST_NODES: i64 = 8;
const CLOSEST: &str = "prefer-closest-numa-nodes";
const MOST: &str = "max-allowable-numa-nodes";

/// `topologyManagerPolicy`: which pods are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Every pod; NUMA nodes are not looked at.
    #[default]
    None,
    /// Every pod, on the best NUMA nodes that there are.
    BestEffort,
    /// Those that get every resource from no more NUMA nodes than are needed.
    Restricted,
    /// Those that get every resource from one NUMA node.
    SingleNumaNode,
}

/// `topologyManagerScope`: what is aligned together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// Each container for itself.
    #[default]
    Container,
    /// All containers of the pod.
    Pod,
}

/// The settings of the topology manager, which fit each other and the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// `topologyManagerPolicy`.
    pub policy: Policy,
    /// `topologyManagerScope`.
    pub scope: Scope,
    /// `prefer-closest-numa-nodes`: of equally many NUMA nodes those that are closest to each other.
    pub prefer_closest: bool,
}

/// Settings that the topology manager cannot work with. The texts are the kubelet's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// `topologyManagerPolicy` is none of the policies.
    #[error("unknown policy: {0:?}")]
    Policy(String),
    /// `topologyManagerScope` is neither `container` nor `pod`.
    #[error("unknown scope: {0:?}")]
    Scope(String),
    /// A key of `topologyManagerPolicyOptions` is not known.
    #[error("unknown Topology Manager Policy option: {0:?}")]
    Option(String),
    /// `prefer-closest-numa-nodes` is neither true nor false.
    #[error("bad value for option {name:?}: strconv.ParseBool: parsing {value:?}: invalid syntax")]
    Bool {
        /// The option.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// `max-allowable-numa-nodes` is not a number.
    #[error(
        "unable to convert policy option to integer {name:?}: strconv.Atoi: parsing {value:?}: invalid syntax"
    )]
    Number {
        /// The option.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// `max-allowable-numa-nodes` is below 8.
    #[error("the minimum value of \"max-allowable-numa-nodes\" should not be less than 8")]
    TooFew,
    /// The machine has more NUMA nodes than are allowed.
    #[error("unsupported on machines with more than {0} NUMA Nodes")]
    TooMany(i64),
    /// `prefer-closest-numa-nodes` is set, and the distances between the nodes are not known.
    #[error("error getting NUMA distances from sysfs: they are not known for every NUMA node")]
    Distances,
}

impl Settings {
    /// Checks the settings for a machine with this many NUMA nodes. With policy `none` scope and options are
    /// not looked at, as in the kubelet. Source: `topologymanager.NewManager`.
    ///
    /// # Errors
    /// The first setting that is not valid, or too many NUMA nodes.
    pub fn new(
        policy: &str,
        scope: &str,
        options: &BTreeMap<String, String>,
        nodes: usize,
        distances_known: bool,
    ) -> Result<Self, PolicyError> {
        if policy == "none" {
            return Ok(Self::default());
        }
        let (mut prefer_closest, mut most) = (false, MOST_NODES);
        for (name, value) in options {
            match name.as_str() {
                CLOSEST => {
                    prefer_closest = go_bool(value)
                        .ok_or_else(|| PolicyError::Bool { name: CLOSEST, value: value.clone() })?;
                }
                MOST => {
                    most = value
                        .parse()
                        .map_err(|_| PolicyError::Number { name: MOST, value: value.clone() })?;
                    if most < MOST_NODES {
                        return Err(PolicyError::TooFew);
                    }
                }
                _ => return Err(PolicyError::Option(name.clone())),
            }
        }
        if prefer_closest && !distances_known {
            return Err(PolicyError::Distances);
        }
        if i64::try_from(nodes).is_ok_and(|nodes| nodes > most) {
            return Err(PolicyError::TooMany(most));
        }
        let policy = match policy {
            "best-effort" => Policy::BestEffort,
            "restricted" => Policy::Restricted,
            "single-numa-node" => Policy::SingleNumaNode,
            _ => return Err(PolicyError::Policy(policy.to_owned())),
        };
        let scope = match scope {
            "container" => Scope::Container,
            "pod" => Scope::Pod,
            _ => return Err(PolicyError::Scope(scope.to_owned())),
        };
        Ok(Self { policy, scope, prefer_closest })
    }
}

/// A truth value as Go reads it (`strconv.ParseBool`); the options of the kubelet's managers are read so.
pub fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
