//! Breaks one offset in the kernel's type information, to see that the tests notice.
//!
//! The format is Documentation/bpf/btf.rst of the kernel. Only what leads to the member is read.

/// The machine's own type information.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
/// Bytes of a type before what depends on its kind.
const TYPE: usize = 12;
/// Bytes of a member: name, type, offset.
const MEMBER: usize = 12;
const KIND_STRUCT: u32 = 4;

/// Not to be understood, or without the member.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    #[error("this is no little-endian BTF")]
    Magic,
    #[error("it ends in the middle of something, at byte {0}")]
    Short(usize),
    #[error("type of unknown kind {kind} at byte {at}")]
    Kind { kind: u32, at: usize },
    #[error("there is no struct {structure} with a member {member}")]
    NoMember { structure: String, member: String },
}

/// Adds `bits` to the offset of a struct's member. A struct defined several times is changed everywhere.
///
/// # Errors
/// When `btf` can't be understood or has no such member.
pub fn shift_member(btf: &mut [u8], structure: &str, member: &str, bits: u32) -> Result<(), BtfError> {
    let places = places(btf, structure, member)?;
    if places.is_empty() {
        return Err(BtfError::NoMember { structure: structure.into(), member: member.into() });
    }
    for at in places {
        let offset = word(btf, at)? + bits;
        btf[at..at + 4].copy_from_slice(&offset.to_le_bytes());
    }
    Ok(())
}

/// Where the offsets of that member are.
fn places(btf: &[u8], structure: &str, member: &str) -> Result<Vec<usize>, BtfError> {
    if btf.get(..2) != Some(&MAGIC.to_le_bytes()) {
        return Err(BtfError::Magic);
    }
    // Header: magic, version, flags, its length, then offset and length of types and of strings, from its
    // end.
    let header = word(btf, 4)? as usize;
    let types = header + word(btf, 8)? as usize;
    let end = types + word(btf, 12)? as usize;
    let strings = header + word(btf, 16)? as usize;
    let named = |at: usize, name: &str| -> Result<bool, BtfError> {
        let start = strings + word(btf, at)? as usize;
        let text = btf.get(start..).ok_or(BtfError::Short(start))?;
        Ok(text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0)))
    };
    let mut places = Vec::new();
    let mut at = types;
    while at < end {
        let info = word(btf, at + 4)?;
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        let members = at + TYPE;
        if kind == KIND_STRUCT && named(at, structure)? {
            for index in 0..count {
                if named(members + index * MEMBER, member)? {
                    places.push(members + index * MEMBER + 8);
                }
            }
        }
        at = members + extra(kind, count).ok_or(BtfError::Kind { kind, at })?;
    }
    Ok(places)
}

/// Bytes that follow a type of `kind` with `count` parts.
fn extra(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // Integer, variable, declaration tag.
        1 | 14 | 17 => 4,
        // Pointer, forward, typedef, volatile, const, restrict, function, float, type tag.
        2 | 7..=12 | 16 | 18 => 0,
        // Array.
        3 => 12,
        // Struct, union, data section, 64-bit enum.
        4 | 5 | 15 | 19 => count * 12,
        // Enum, function prototype.
        6 | 13 => count * 8,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Result<u32, BtfError> {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map(u32::from_le_bytes).ok_or(BtfError::Short(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strings: 1 `sched_info`, 12 `pcount`, 19 `run_delay`, 29 `run`.
    const STRINGS: &[u8] = b"\0sched_info\0pcount\0run_delay\0run\0";

    fn btf(types: &[u32]) -> Vec<u8> {
        let length = types.len() as u32 * 4;
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, length, length, STRINGS.len() as u32].iter().chain(types) {
            bytes.extend(u32::to_le_bytes(*word));
        }
        bytes.extend(STRINGS);
        bytes
    }

    const STRUCT: u32 = 4 << 24;

    #[test]
    fn the_member_is_found_behind_types_of_other_kinds() {
        let int = [0, 1 << 24, 8, 64];
        let array = [0, 3 << 24, 0, 1, 1, 4];
        let prototype = [0, 13 << 24 | 2, 1, 0, 1, 0, 1];
        let union_of_that_name = [1, 5 << 24 | 1, 8, 19, 1, 0];
        let wanted = [1, STRUCT | 2, 16, 12, 1, 0, 19, 1, 64];
        let types = [&int[..], &array, &prototype, &union_of_that_name, &wanted].concat();
        let mut broken = btf(&types);
        shift_member(&mut broken, "sched_info", "run_delay", 64).unwrap();
        let mut expected = types.clone();
        *expected.last_mut().unwrap() = 128;
        assert_eq!(broken, btf(&expected));
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let types = [1, STRUCT | 1, 8, 12, 1, 0];
        for (structure, member) in [("sched_info", "run_delay"), ("sched", "pcount"), ("sched_info", "pcoun")]
        {
            let error = shift_member(&mut btf(&types), structure, member, 64).unwrap_err();
            assert!(matches!(error, BtfError::NoMember { .. }), "{error}");
        }
        assert_eq!(shift_member(&mut [0; 40], "a", "b", 64), Err(BtfError::Magic));
        assert_eq!(
            shift_member(&mut btf(&[0, 31 << 24, 0]), "a", "b", 64),
            Err(BtfError::Kind { kind: 31, at: 24 })
        );
        let mut short = btf(&types);
        short.truncate(40);
        assert!(matches!(shift_member(&mut short, "sched_info", "pcount", 1), Err(BtfError::Short(_))));
    }
}
