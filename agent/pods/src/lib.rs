//! What a pod needs on the node before and while it runs.
//!
//! From ground to top: where its files are ([`paths`]), the values of its fields (`fields`), the
//! objects of the API server that it names ([`objects`]), its volumes ([`volume`]),
//! its HTTP requests (`http_get`), where its manifest comes from ([`source`]), its status ([`status`]), the
//! rotation of its logs ([`log_rotation`]), the configuration of its containers ([`spec`]), its probes
//! ([`probes`]).

#![deny(missing_docs)]

mod fields;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod http_get;
pub mod log_links;
pub mod log_owner;
pub mod log_rotation;
pub mod objects;
pub mod paths;
pub mod probes;
pub mod registry;
pub mod source;
pub mod spec;
pub mod status;
pub mod volume;
