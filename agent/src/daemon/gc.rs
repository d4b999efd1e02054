//! Garbage collection of images and dead containers.

use std::sync::Arc;

use super::context::Context;
use nodewarden_config::{Endpoint, Mode};
use nodewarden_cri::Client;
use nodewarden_gc::{Collector, Deps, Holds, StatVfs};
use nodewarden_lifecycle as lifecycle;

/// Starts the collector; in mode observe it removes nothing. Images in `holds` are kept. Must be called
/// inside a tokio runtime, and ends with it.
pub fn start(context: Context<'_>, endpoint: &Endpoint, holds: Holds) -> Collector {
    let config = context.config;
    // A connection of its own: a removal that takes long holds up no other call.
    let client = Client::new(endpoint)
        .with_image_service(config.image_endpoint.as_ref())
        .with_request_limit(config.pods.runtime_request_timeout);
    let deps = Deps {
        runtime: Arc::new(client),
        list: Some(context.shared_list(endpoint)),
        disk: Arc::new(StatVfs),
        state_dir: config.state_dir.clone(),
        root_dir: config.root_dir().to_owned(),
        logs_dir: config.pods.logs_dir.clone(),
        journal: context.journal.clone(),
        board: context.pods.clone(),
        ownership: lifecycle::ownership(config),
        holds,
        acts: config.mode == Mode::Manage,
    };
    Collector::start(&config.gc, deps)
}
