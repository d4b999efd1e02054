//! The agent's interfaces for other programs: gRPC on a Unix socket, and HTTP.

#![deny(missing_docs)]

pub mod grpc;
pub mod http;
