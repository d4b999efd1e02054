//! The surfaces: what other programs ask of the agent.

pub mod grpc;
pub mod http;
pub mod kubernetes;
