//! Device plugins and devices: what the kubelet's device manager does, and what it leaves to the runtime.
//!
//! Plugins written for the kubelet register and are listened to ([`plugin`]). Who has which device is a pure value
//! ([`ledger`]); what of it must outlive the agent is in the kubelet's own checkpoint file ([`checkpoint`]). What a pod may
//! open is a pure function of its manifest and its devices ([`policy`]), and the kernel holds it to that ([`enforce`]).
//! [`Devices`] and [`Guards`] join them for those who start pods.

mod admission;
#[cfg(test)]
mod admission_tests;
pub mod checkpoint;
mod demand;
pub mod enforce;
mod error;
mod guards;
mod injection;
pub mod ledger;
mod manager;
pub mod plugin;
pub mod pod_resources;
pub mod policy;
pub mod types;
mod view;

pub use admission::Admitted;
pub use enforce::EnforceError;
pub use error::AdmissionError;
pub use guards::Guards;
pub use injection::injection;
pub use manager::{Devices, Note, Serving, Tell};
pub use types::{Allocation, ContainerDemand, Device, DeviceHealth, DevicesPerNuma, PodDemand, Refusal};
