//! Tests of the client with a real containerd and with a fake runtime.

mod cni_results;
mod containerd;
mod images;
mod lifecycle;
mod server;
