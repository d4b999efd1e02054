//! What a resolver takes (kubelet `formDNSConfigFitsLimits`; pkg/apis/core/validation).

pub const MOST_NAMESERVERS: usize = 3;
pub const MOST_SEARCHES: usize = 32;
/// Of all search domains together, with the blanks between them.
pub const LONGEST_SEARCHES: usize = 2048;
/// Of one domain.
pub const LONGEST_DOMAIN: usize = 253;
