//! Events: the record that the journal keeps and that the command line and gRPC show. The table of their
//! types is in `topics`.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1 as proto;
use proto::event::Detail as ProtoDetail;
use serde::{Deserialize, Serialize};

use crate::topics::Detail;

/// One event. Serialised as one JSON object per line in the journal and by `nodewarden events --output json`.
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
    /// The pod and container that the cgroup belongs to; `None` if it belongs to none, or if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// What happened, by type.
    #[serde(flatten)]
    pub detail: Detail,
}

/// Pod and container of an event; what is unknown is an empty string.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodRef {
    /// The pod's uid.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The runtime's id of the container; empty for an event of the pod as a whole.
    pub container_id: String,
    /// The container's name in the manifest.
    pub container_name: String,
}

/// The content of one type of event: its line on the command line and its gRPC message.
pub trait EventBody {
    /// What the command line prints after the time and the type. It may hold the control characters of a
    /// command name or a path, which are replaced before it is printed.
    fn line(&self, place: &Place<'_>) -> String;

    /// The gRPC message.
    fn to_proto(&self) -> ProtoDetail;

    /// Reads the gRPC message; `None` when it is of another type or has a value that this version does not
    /// know.
    fn from_proto(detail: ProtoDetail) -> Option<Self>
    where
        Self: Sized;
}

/// Where an event happened. Displayed as the names of the pod and container, and the path of the cgroup.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Path of the cgroup; empty for an event of the node.
    pub cgroup: &'a str,
    /// The pod and container that the cgroup belongs to, if known.
    pub pod: Option<&'a PodRef>,
}

impl Place<'_> {
    /// Whether neither cgroup nor pod is known: an event of the node.
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

/// What is known of the cgroups when a record of the kernel programs is turned into an event.
pub trait Tree {
    /// Path of the cgroup with the kernel id `id` in the hierarchy of `space` (an
    /// `nodewarden_ebpf_abi::Space` as a number); `None` if it is not known.
    fn path(&self, space: usize, id: u64) -> Option<Arc<str>>;

    /// Like [`Tree::path`]; a cgroup that is not known is shown by its id.
    fn path_or_id(&mut self, space: usize, id: u64) -> Arc<str>;

    /// Bytes of a page: the kernel counts memory in pages.
    fn page_bytes(&self) -> u64;
}

/// A limit of a cgroup that another program had changed, or that an earlier agent had set to another value,
/// and that was set back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Correction {
    /// The file that holds the limit: `memory.max`.
    pub limit: String,
    /// The value found, as the kernel writes it.
    pub found: String,
    /// The value written, as the kernel writes it.
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
        $(#[doc = $about:literal])+
        $(#[serde($($serde:tt)*)])?
        $kind:ident $(($body:ty))? $({ $($(#[$field_meta:meta])* $field:ident: $type:ty),* })? = $name:literal;
    )*) => {
        /// What happened, by type.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "type", rename_all = "camelCase")]
        pub enum Detail {
            $(
                $(#[doc = $about])+
                $(#[serde($($serde)*)])?
                $kind $(($body))? $({ $($(#[$field_meta])* $field: $type),* })?,
            )*
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

            /// When such an event is made, as docs/EVENTS.md has it.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$kind => concat!($($about),+).trim_ascii_start(),)*
                }
            }

            /// The type with that name; `None` if there is none.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|t| t.name() == name)
            }
        }

        impl Detail {
            /// The type of this event.
            pub fn event_type(&self) -> EventType {
                match self {
                    $(Self::$kind { .. } => EventType::$kind,)*
                }
            }

            /// The structure with the content, for the types that have one.
            pub fn body(&self) -> Option<&dyn EventBody> {
                match self {
                    $($(Self::$kind(body) => {
                        let body: &$body = body;
                        Some(body)
                    })?)*
                    _ => None,
                }
            }

            /// An event of a type that has a structure, read from its gRPC message; `None` for the other
            /// types and when [`EventBody::from_proto`] refuses the message.
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
