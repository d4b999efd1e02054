//! Device plugins and devices: what the kubelet's device manager does, and what it leaves to the runtime.
//!
//! Plugins written for the kubelet register and are listened to ([`plugin`]). Who has which device is a pure value
//! ([`ledger`]); what of it must outlive the agent is in the kubelet's own checkpoint file ([`checkpoint`]). What a pod may
//! open is a pure function of its manifest and its devices (`policy`), and the kernel holds it to that (`enforce`).
//! Those who watch the node are told who has what ([`pod_resources`]).

pub mod plugin;
pub mod pod_resources;
pub mod types;

pub use types::{
    Allocation, ContainerDemand, Device, DevicesPerNuma, Health, HostDevice, HostDeviceKind, PodDemand,
    Refusal,
};
