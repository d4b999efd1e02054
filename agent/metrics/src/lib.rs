//! Metric names and exposition: pure functions from [`nodewarden_model`] values to Prometheus text and to the
//! kubelet's `/stats/summary`.
//!
//! | document | written by | names |
//! |---|---|---|
//! | `/metrics` | [`own::write`], then [`recorder::render`] | [`Own`], families of topics |
//! | `/metrics/cadvisor` | [`cadvisor::write`] | [`Cadvisor`] |
//! | `/metrics/resource` | [`resource::write`] | [`Resource`] |
//! | `/metrics/slis` | [`slis::write`] | [`Sli`] |
//! | `/stats/summary` | [`summary::summary`] | [`summary::Summary`] |
//!
//! An unknown value is left out everywhere. A metric's name, type, help and label keys are defined in one
//! place: one of the four enums, or for counters of an eBPF topic its `families`
//! ([`nodewarden_model::TopicSpec`]).
//!
//! `promtool check metrics` accepts all these texts. Its linter has no complaints about `/metrics/resource`
//! and `/metrics/slis`. About the others it complains (exit code 3; a text that does not parse gives 1),
//! because of names that cAdvisor and the kubelet define and dashboards rely on: on `/metrics/cadvisor` the
//! counter `container_memory_failcnt` without `_total` and the labels of `cadvisor_version_info` in camel
//! case, on `/metrics` the counters `kubelet_evictions` and `kubelet_preemptions` without `_total`. It
//! complains about a kubelet's answers in the same way.

#![deny(missing_docs)]

pub mod cadvisor;
pub mod exposition;
mod family;
mod number;
pub mod own;
pub mod recorder;
pub mod resource;
mod rows;
pub mod slis;
pub mod summary;

pub use cadvisor::names::Cadvisor;
pub use own::Own;
pub use resource::Resource;
pub use slis::Sli;

#[cfg(test)]
mod document;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod monitoring;
#[cfg(any(test, feature = "testing"))]
pub mod parsed;
#[cfg(test)]
mod promtool;
#[cfg(test)]
mod speed;
