//! The node's server on port 10250, as a kubelet's: TLS, authentication and authorization by the API server,
//! pods, logs, exec, attach and port forwarding.
//!
//! | path | answer |
//! |---|---|
//! | `/pods` | the node's pods with their status |
//! | `/runningpods/` | those of which a container runs |
//! | `/containerLogs/NAMESPACE/POD/CONTAINER` | a container's log |
//! | `/exec/…`, `/attach/…`, `/portForward/…` | streams, handed to the runtime's streaming server |
//! | `/run/…` | the output of a command |
//! | `/configz` | the configuration in effect |
//! | `/logs/` | the files of `/var/log` |
//! | `/metrics`, `/metrics/…`, `/stats/summary` | what the agent's own HTTP has too |
//! | `/metrics/slis` | how the checks of `/healthz` have ended |
//! | `/healthz`, `/healthz/…` | whether every part of the agent makes progress |
//!
//! - [`listen`]: accepts connections within bounds, and TLS.
//! - [`guard`]: who a request is of, and whether it may do what it wants ([`attributes`]).
//! - [`route`]: which handler it is for; [`server`]: the handlers.
//!
//! The read-only port and the health port have no authentication and offer only what needs none.

#![deny(missing_docs)]

mod answer;
pub mod attributes;
mod cache;
pub mod checks;
pub mod configz;
pub mod guard;
mod health;
pub mod identity;
pub mod listen;
mod logs;
mod open;
mod pods;
pub mod query;
pub mod route;
pub mod runtime;
pub mod server;
mod system_logs;
pub mod tls;
mod unauthenticated;
mod upgrade;

pub use checks::Checks;
pub use guard::Guard;
pub use open::{health_routes, read_only_routes};
pub use server::{Node, Server};
