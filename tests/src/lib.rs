//! What the end-to-end tests and benches share.
