//! The checksum of the kubelet's state files: 32-bit FNV-1a of the Go value as `dump.ForHash` prints it
//! (`pkg/util/hash`, `pkg/kubelet/checkpointmanager/checksum`).

/// The 32-bit FNV-1a hash (RFC 9923) of `text`.
pub fn fnv32a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    #[test]
    fn fnv_matches_the_published_vectors() {
        for (text, hash) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            assert_eq!(super::fnv32a(text), hash, "{text}");
        }
    }
}
