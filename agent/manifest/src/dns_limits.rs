//! Limits of a resolver configuration (kubelet `formDNSConfigFitsLimits`; pkg/apis/core/validation).

/// Maximum number of nameservers.
pub const MOST_NAMESERVERS: usize = 3;
/// Maximum number of search domains.
pub const MOST_SEARCHES: usize = 32;
/// Maximum length in bytes of all search domains together, including the spaces between them.
pub const LONGEST_SEARCHES: usize = 2048;
/// Maximum length in bytes of one domain.
pub const LONGEST_DOMAIN: usize = 253;
