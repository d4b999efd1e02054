//! Beside a kubelet, which gives containers their devices: who has what, as the kubelet's PodResources and
//! its checkpoint say ([`kubelet`], [`held`]), with device nodes also from CDI files ([`cdi`]); which
//! accesses are found out by the program that mode manage has ([`policy`], [`guards`]); and which devices
//! containers have lost ([`loss`]).

mod cdi;
mod cgroup;
mod given;
mod guards;
mod held;
mod kubelet;
mod loss;
mod node;
mod policy;
mod shown;

pub use guards::{BesideGuards, Round, Seen, SeenContainer, Settings, ShownDevices};
pub use kubelet::{Answer, AskError, KubeletSocket};
pub use loss::{Change, Changed};
