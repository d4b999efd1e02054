//! The daemon behind `nodewarden agent`: starts every part of the agent, serves what they report, and ends
//! them so that the machine is left clean.
//!
//! [`app`] reads from top to bottom: what runs, in which order it is started, and in which order it is ended.
//! In mode observe ([`observe`]) pods are only watched, in mode augment ([`augment`]) something is done for
//! them beside the kubelet that runs them, in mode manage ([`manage`]) they are also run. What the API reads
//! is one value, [`state::State`], built after the parts that it reads from.

mod app;
mod augment;
mod context;
mod devices;
mod error;
mod eviction;
mod footprint;
mod gc;
mod kubernetes;
mod manage;
mod node_parts;
mod node_server;
mod observe;
mod page_map;
mod pod_reports;
mod privileges;
mod process;
mod resource_managers;
mod servers;
mod shutdown;
mod state;
mod system_cgroups;
mod throttle;
mod upkeep;
mod watchdog;

pub use app::run;
pub use error::DaemonError;
pub use resource_managers::check as check_resource_managers;
