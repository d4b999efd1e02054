//! The machine that the agent runs on: its cgroups ([`cgroup`]), the kernel programs ([`ebpf`]), its capacity
//! and its daemons ([`node`]), and what several parts read of it: mounts ([`mountinfo`]), lists of CPUs
//! ([`cpu_list`]) and sets of them ([`cpu_set`]), device nodes ([`device_nodes`]), changes in directories
//! ([`inotify`]), the clocks ([`clock`]), the size of a page ([`page`]), the name of the system
//! ([`os_release`]), project quotas ([`project_quota`]), Unix sockets that one process owns
//! ([`unix_socket`]), and what the agent itself may do ([`privileges`]).

#![deny(missing_docs)]

pub mod cgroup;
pub mod clock;
pub mod cpu_list;
pub mod cpu_set;
pub mod device_nodes;
pub mod ebpf;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod inotify;
pub mod mountinfo;
pub mod node;
pub mod os_release;
pub mod page;
pub mod privileges;
pub mod project_quota;
pub mod unix_socket;
