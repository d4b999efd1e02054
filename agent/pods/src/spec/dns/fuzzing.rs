//! Entry points for fuzzing: the node's resolver configuration.

use super::Resolv;

/// Parses resolv.conf; the error is the number of a line.
///
/// # Errors
/// When a `nameserver` line has no address.
pub fn resolv(text: &str) -> Result<Resolv, usize> {
    Resolv::parse(text)
}
