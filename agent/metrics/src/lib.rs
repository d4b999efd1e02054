//! Metric names and exposition: pure functions from [`nodewarden_model`] values to Prometheus text and to the
//! kubelet's `/stats/summary`.
//!
//! | document | written by | names |
//! |---|---|---|
//! | `/metrics` | [`own::write`], then [`recorder::render`] | [`Own`] |
//! | `/metrics/cadvisor` | [`cadvisor::write`] | [`Cadvisor`] |
//! | `/metrics/resource` | [`resource::write`] | [`Resource`] |
//! | `/stats/summary` | [`summary::summary`] | [`summary::types`] |
//!
//! A value that is unknown is left out everywhere. The three enums are the only place where the name, type, help
//! text and label keys of a metric are written.
//!
//! `promtool check metrics` accepts all three texts. On `/metrics/resource` it finds nothing; its linter (exit code 3,
//! where a text that does not parse gives 1) dislikes names that cAdvisor and the kubelet set and dashboards rely on: on
//! `/metrics/cadvisor` the counter `container_memory_failcnt` without `_total` and the labels of `cadvisor_version_info`
//! in camel case, on `/metrics` the counters `kubelet_evictions` and `kubelet_preemptions` without `_total`. A kubelet's
//! answer draws the same.

pub mod cadvisor;
pub mod exposition;
pub mod family;
pub mod number;
pub mod own;
pub mod recorder;
pub mod resource;
mod rows;
pub mod summary;

pub use cadvisor::names::Cadvisor;
pub use own::Own;
pub use resource::Resource;

#[cfg(any(test, feature = "testing"))]
pub mod fixture;
#[cfg(test)]
mod golden;
#[cfg(any(test, feature = "testing"))]
pub mod parsed;
#[cfg(test)]
mod promtool;
#[cfg(test)]
mod speed;
