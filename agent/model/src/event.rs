//! What happened: the record that the journal keeps and that is shown. The table of types is in `topics`.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1 as proto;
use proto::event::Detail as ProtoDetail;
use serde::{Deserialize, Serialize};

use crate::topics::Detail;

/// One event. Serialised as one JSON object a line in the journal and by `nodewarden events --output json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Grows by one with every event of this node, also across restarts of the agent.
    pub seq: u64,
    /// When it happened in the kernel (not when it was read).
    pub time: Timestamp,
    /// Path of the cgroup that it happened to; empty for the agent's own events.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cgroup: String,
    /// The pod and container behind the cgroup, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    #[serde(flatten)]
    pub detail: Detail,
}

/// Pod and container of an event; empty strings are unknown.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodRef {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub container_id: String,
    pub container_name: String,
}

/// What an event of one type has to say.
pub trait EventBody {
    /// What the command line prints after the time and the type.
    fn line(&self, place: &Place<'_>) -> String;

    /// As it is sent over gRPC.
    fn to_proto(&self) -> ProtoDetail;

    /// As it came over gRPC; `None` when it is of another type or broken.
    fn from_proto(detail: ProtoDetail) -> Option<Self>
    where
        Self: Sized;
}

/// Where an event happened: prints the cgroup by its pod's and container's names, and by its path.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Path of the cgroup.
    pub cgroup: &'a str,
    pub pod: Option<&'a PodRef>,
}

impl Place<'_> {
    /// Whether nothing is known of it: an event of the node.
    pub fn is_empty(&self) -> bool {
        self.pod.is_none() && self.cgroup.is_empty()
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pod) = self.pod else { return f.write_str(self.cgroup) };
        f.write_str("pod ")?;
        match (pod.namespace.is_empty(), pod.name.is_empty()) {
            (false, false) => write!(f, "{}/{}", pod.namespace, pod.name)?,
            (true, false) => f.write_str(&pod.name)?,
            (_, true) => f.write_str(&pod.uid)?,
        }
        match (pod.container_name.is_empty(), pod.container_id.get(..12)) {
            (false, _) => write!(f, " container {}", pod.container_name)?,
            (true, Some(short)) => write!(f, " container {short}")?,
            (true, None) if !pod.container_id.is_empty() => write!(f, " container {}", pod.container_id)?,
            (true, None) => {}
        }
        write!(f, " [{}]", self.cgroup)
    }
}

/// What is known of the cgroups when a record becomes an event.
pub trait Tree {
    /// Path of a cgroup by its kernel id in the hierarchy of a space.
    fn path(&self, space: usize, id: u64) -> Option<Arc<str>>;

    /// The same; a cgroup that is not known is shown by its id.
    fn path_or_id(&mut self, space: usize, id: u64) -> Arc<str>;

    /// Bytes of a page: the kernel counts memory in pages.
    fn page_bytes(&self) -> u64;
}

/// One limit of one cgroup that another program had changed, or that an earlier agent had set to another
/// value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Correction {
    /// The file that holds it: `memory.max`.
    pub limit: String,
    /// As the kernel writes them.
    pub found: String,
    pub written: String,
}

impl EventBody for Correction {
    fn line(&self, place: &Place<'_>) -> String {
        format!("{} was {}, put back to {} in {place}", self.limit, self.found, self.written)
    }

    fn to_proto(&self) -> ProtoDetail {
        ProtoDetail::LimitCorrected(proto::LimitCorrected {
            limit: self.limit.clone(),
            found: self.found.clone(),
            written: self.written.clone(),
        })
    }

    fn from_proto(detail: ProtoDetail) -> Option<Self> {
        let ProtoDetail::LimitCorrected(c) = detail else { return None };
        Some(Self { limit: c.limit, found: c.found, written: c.written })
    }
}

/// Defines `Detail` and `EventType` from one line for each type: its name in Rust, what it carries (a
/// structure that has an [`EventBody`], or fields), and its name in JSON, on the command line and as a metric
/// label.
macro_rules! events {
    ($(
        $(#[$meta:meta])*
        $kind:ident $(($body:ty))? $({ $($field:ident: $type:ty),* })? = $name:literal;
    )*) => {
        /// What happened, by type.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "type", rename_all = "camelCase")]
        pub enum Detail {
            $($(#[$meta])* $kind $(($body))? $({ $($field: $type),* })?,)*
        }

        /// The types of events, for filters and counters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub enum EventType {
            $(#[doc = concat!("`", $name, "`")] $kind,)*
        }

        impl EventType {
            /// Every type.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kind),*];

            /// The name used in JSON, on the command line and as a metric label.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// The type of a name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|t| t.name() == name)
            }
        }

        impl Detail {
            pub fn event_type(&self) -> EventType {
                match self {
                    $(Self::$kind { .. } => EventType::$kind,)*
                }
            }

            /// The structure with what there is to say, for the types that have one.
            pub fn body(&self) -> Option<&dyn EventBody> {
                match self {
                    $($(Self::$kind(body) => {
                        let body: &$body = body;
                        Some(body)
                    })?)*
                    _ => None,
                }
            }

            /// An event of a type that has a structure, as it came over gRPC; `None` for the other types and
            /// when it is broken.
            pub fn from_body(event_type: EventType, detail: ProtoDetail) -> Option<Self> {
                match event_type {
                    $($(EventType::$kind => <$body>::from_proto(detail).map(Self::$kind),)?)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use events;
