//! The collector in a world of its own.

mod pods;
mod rounds;
mod runs;
pub mod views;
mod world;
