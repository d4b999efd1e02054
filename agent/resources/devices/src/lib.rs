//! Device plugins and device access: the work of the kubelet's device manager, and what it leaves to the
//! runtime.
//!
//! Plugins written for the kubelet register and send their lists of devices (`plugin`). Which container has
//! which device is a plain value without side effects (`allocations`). What of it must survive a restart of
//! the agent is in the kubelet's own checkpoint file (`checkpoint`). Which devices a pod may open is a pure
//! function of its manifest and its devices (`policy`); the kernel enforces it (`enforce`). [`Devices`] and
//! [`Guards`] are the handles for callers that start pods. Beside a kubelet it is [`beside`] that finds out
//! who has what, and which accesses are wrong.

#![deny(missing_docs)]

mod admission;
mod aligned;
mod allocations;
pub mod beside;
mod checkpoint;
mod demand;
mod enforce;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod guards;
mod injection;
mod manager;
mod plugin;
pub mod pod_resources;
mod policy;
mod types;
mod view;

pub use admission::Admitted;
pub use aligned::{DeviceProvider, Preferences};
pub use allocations::Question;
pub use enforce::{EnforceError, Enforcer};
pub use error::AdmissionError;
pub use guards::Guards;
pub use manager::{DeviceEvent, DeviceTasks, Devices, EventSink};
pub use nodewarden_model::DevicesPerNuma;
pub use plugin::{InvalidRegistration, PluginAddress, PluginError};
pub use types::{Allocation, ContainerDemand, DeviceHealth, PodDemand, Refusal};

use types::Device;
