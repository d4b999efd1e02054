//! The collector with a fake runtime.

mod pods;
mod quiet;
mod rounds;
mod runs;
mod shared_list;
