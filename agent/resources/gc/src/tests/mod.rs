//! The collector with a fake runtime.

mod pods;
mod rounds;
mod runs;
mod shared_list;
