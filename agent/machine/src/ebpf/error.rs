//! Errors of loading and reading eBPF programs.

use std::io;
use std::path::PathBuf;

use super::btf::BtfError;

/// Why the eBPF programs or their maps cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel's type information (BTF) is missing or not understood.
    #[error("the kernel's types in {path}: {source} (the kernel needs CONFIG_DEBUG_INFO_BTF)")]
    Btf {
        /// The file, `/sys/kernel/btf/vmlinux`.
        path: PathBuf,
        /// What is wrong with it.
        source: BtfError,
    },
    /// A file that determines how the programs are loaded cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// aya cannot parse the object, or the kernel refused its maps.
    #[error("cannot load the eBPF object: {0}")]
    Object(#[from] aya::EbpfError),
    /// aya cannot parse the kernel's BTF.
    #[error("cannot read the kernel's types for aya: {0}")]
    AyaBtf(#[from] aya::BtfError),
    /// The object does not have the map of this name.
    #[error("the eBPF object has no map {0}: agent and object are of different versions")]
    NoMap(&'static str),
    /// The kernel refused a call on a map.
    #[error("eBPF map {map}: {source}")]
    Map {
        /// Name of the map in the object.
        map: &'static str,
        /// The error of the call.
        source: aya::maps::MapError,
    },
    /// mmap(2) of an array failed.
    #[error("cannot map eBPF array {map} of {bytes} bytes into memory: {source}")]
    Mmap {
        /// Name of the map in the object.
        map: &'static str,
        /// Size of the mapping.
        bytes: usize,
        /// The system's error.
        source: io::Error,
    },
    /// epoll(7) on the ring buffer failed.
    #[error("cannot wait for events: {0}")]
    Poll(nix::Error),
    /// A thread that reads the ring buffer, or the kernel's types and symbols, cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
