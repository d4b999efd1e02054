//! What the agent speaks to the outside: HTTP for Prometheus and health.

pub mod http;
