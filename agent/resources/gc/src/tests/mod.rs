//! The collector with a fake runtime.

mod pods;
mod rounds;
mod runs;
