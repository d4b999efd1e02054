//! The agent's interfaces for other programs: gRPC on a Unix socket, and HTTP.

pub mod grpc;
pub mod http;
pub mod kubernetes;
