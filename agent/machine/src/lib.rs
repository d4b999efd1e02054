//! The machine that the agent runs on: its cgroups ([`cgroup`]), the kernel programs ([`ebpf`]), its capacity and its
//! daemons ([`node`]), and Unix sockets that one process owns ([`unix_socket`]).

pub mod cgroup;
pub mod ebpf;
pub mod node;
pub mod unix_socket;
