//! Limits of a resolver configuration (kubelet `formDNSConfigFitsLimits`; pkg/apis/core/validation).

pub const MOST_NAMESERVERS: usize = 3;
pub const MOST_SEARCHES: usize = 32;
/// Maximum length of all search domains together, including the spaces between them.
pub const LONGEST_SEARCHES: usize = 2048;
/// Maximum length of one domain.
pub const LONGEST_DOMAIN: usize = 253;
