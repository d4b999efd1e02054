//! The 32-bit FNV-1a hash (RFC 9923), with which the kubelet checks its state files (`pkg/util/hash`,
//! `pkg/kubelet/checkpointmanager/checksum`) and tells containers apart.

/// The hash of what was put so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fnv32a(u32);

impl Fnv32a {
    /// The hash of nothing.
    pub const fn new() -> Self {
        Self(0x811c_9dc5)
    }

    /// Appends bytes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }

    /// The hash.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl Default for Fnv32a {
    fn default() -> Self {
        Self::new()
    }
}

/// The hash of a text.
pub fn fnv32a(text: &str) -> u32 {
    let mut hash = Fnv32a::new();
    hash.put(text.as_bytes());
    hash.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_matches_the_published_vectors() {
        for (text, hash) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            assert_eq!(fnv32a(text), hash, "{text}");
            let mut in_pieces = Fnv32a::new();
            text.bytes().for_each(|byte| in_pieces.put(&[byte]));
            assert_eq!(in_pieces.value(), hash, "{text}");
        }
    }
}
