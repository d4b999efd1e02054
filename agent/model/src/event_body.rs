//! What the events of a type carry, and the macro that makes the types of a table of them (which is in
//! `topics`).

use nodewarden_proto::nodewarden::v1 as proto;
use proto::event::Detail as ProtoDetail;
use serde::{Deserialize, Serialize};

use crate::place::Place;

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
