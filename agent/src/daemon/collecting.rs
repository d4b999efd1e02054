//! The collector of images and dead containers put together; in mode observe one that only looks.

use std::sync::Arc;

use super::observer::Observer;
use nodewarden_config::{Config, Endpoint, Mode};
use nodewarden_cri::Client;
use nodewarden_gc::{Collector, Holds, Needs, StatVfs};
use nodewarden_lifecycle as lifecycle;
use nodewarden_storage::journal::Journal;

/// Starts it and has it shown. Must be called inside a tokio runtime.
pub fn start(
    config: &Config,
    endpoint: &Endpoint,
    observer: &Observer,
    journal: &Journal,
    holds: Holds,
) -> Collector {
    // A connection of its own: a removal that takes its time holds up nobody's calls.
    let client = Client::new(endpoint).with_request_limit(config.pods.runtime_request_timeout);
    let needs = Needs {
        runtime: Arc::new(client),
        disk: Arc::new(StatVfs),
        state_dir: config.state_dir.clone(),
        logs_dir: config.pods.logs_dir.clone(),
        journal: journal.clone(),
        board: observer.board.clone(),
        owner: lifecycle::owner(&config.state_dir),
        holds,
        acts: config.mode == Mode::Manage,
    };
    let collector = Collector::start(&config.gc, needs);
    observer.show_garbage(Arc::new(collector.clone()));
    collector
}
