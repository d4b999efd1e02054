//! Errors of loading and reading eBPF programs.

use std::io;
use std::path::PathBuf;

use super::btf::BtfError;

/// What can go wrong between the agent and the kernel's eBPF.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error("the kernel's types in {path}: {source} (the kernel needs CONFIG_DEBUG_INFO_BTF)")]
    Btf { path: PathBuf, source: BtfError },
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot load the eBPF object: {0}")]
    Object(#[from] aya::EbpfError),
    #[error("cannot read the kernel's types for aya: {0}")]
    AyaBtf(#[from] aya::BtfError),
    #[error("the eBPF object has no map {0}: agent and object are of different versions")]
    NoMap(&'static str),
    #[error("eBPF map {map}: {source}")]
    Map { map: &'static str, source: aya::maps::MapError },
    #[error("cannot map eBPF array {map} of {bytes} bytes into memory: {source}")]
    Mmap { map: &'static str, bytes: usize, source: io::Error },
    #[error("cannot wait for events: {0}")]
    Poll(nix::Error),
    #[error("cannot start the event reader's thread: {0}")]
    Thread(io::Error),
}
