//! CPU lists in the form of systemd's D-Bus properties: a bit for each CPU, the lowest in the first byte.

use super::SystemdError;
use crate::cpu_list::CpuList;

/// Bits of a list (`0-3,7`); empty for the empty list.
///
/// # Errors
/// Names the first part that is not a number or a range.
pub fn mask(list: &str) -> Result<Vec<u8>, SystemdError> {
    let wrong = |part: &str| SystemdError::CpuList { list: list.into(), part: part.into() };
    let mut bytes = Vec::new();
    for cpu in CpuList::parse_cpuset(list).map_err(wrong)?.iter() {
        let at = (cpu / 8) as usize;
        if bytes.len() <= at {
            bytes.resize(at + 1, 0);
        }
        bytes[at] |= 1 << (cpu % 8);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_bits() {
        for (list, bits) in [
            ("", vec![]),
            ("0", vec![1]),
            ("0-1", vec![3]),
            ("0-3,7", vec![0x8f]),
            ("8", vec![0, 1]),
            ("7-8,17\n", vec![0x80, 1, 2]),
        ] {
            assert_eq!(mask(list).unwrap(), bits, "{list:?}");
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for list in ["x", "1-", "-1", "3-2", "0,65536", "1--2"] {
            assert!(mask(list).is_err(), "{list:?}");
        }
        assert_eq!(
            mask("0,65536").unwrap_err().to_string(),
            r#"CPU list "0,65536": "65536" is neither a number up to 65535 nor a range"#
        );
    }
}
