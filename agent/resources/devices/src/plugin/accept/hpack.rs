//! Replaces the authority in a block of HTTP/2 headers (HPACK, RFC 7541). Pure.
//!
//! Only as much is decoded as is needed to step over the fields: neither the tables nor the Huffman code.

/// Index of `:authority` in the static table.
const AUTHORITY: usize = 1;
/// The header name as a literal, plain and in the Huffman code.
const NAME: &[u8] = b":authority";
const NAME_HUFFMAN: &[u8] = &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f];
/// The replacement, as an HPACK string. It is no longer than the original, unless that was empty: an entry of
/// the receiver's dynamic table may be smaller than the sender's, so that it is kept longer, but not larger.
const VALUE: &[u8] = &[1, b'l'];

/// The block with the replaced authority. `None` if it names none, or cannot be decoded.
pub fn with_plain_authority(block: &[u8]) -> Option<Vec<u8>> {
    let mut rest = block;
    let mut out = Vec::with_capacity(block.len());
    let mut found = false;
    while let Some(&first) = rest.first() {
        let field = rest;
        let prefix = match first {
            // An entry of a table: a field that was sent before.
            0x80.. => {
                integer(&mut rest, 7)?;
                out.extend_from_slice(&field[..field.len() - rest.len()]);
                continue;
            }
            // A new size of the table.
            0x20..0x40 => {
                integer(&mut rest, 5)?;
                out.extend_from_slice(&field[..field.len() - rest.len()]);
                continue;
            }
            0x40.. => 6,
            _ => 4,
        };
        let is_authority = match integer(&mut rest, prefix)? {
            0 => {
                let (huffman, name) = string(&mut rest)?;
                name == if huffman { NAME_HUFFMAN } else { NAME }
            }
            index => index == AUTHORITY,
        };
        let name_end = field.len() - rest.len();
        string(&mut rest)?;
        if is_authority {
            found = true;
            out.extend_from_slice(&field[..name_end]);
            out.extend_from_slice(VALUE);
        } else {
            out.extend_from_slice(&field[..field.len() - rest.len()]);
        }
    }
    found.then_some(out)
}

/// Decodes an integer with a prefix of so many bits (section 5.1) and at most three further bytes.
fn integer(rest: &mut &[u8], prefix: u32) -> Option<usize> {
    let (first, mut tail) = rest.split_first()?;
    let most = (1 << prefix) - 1;
    let mut value = usize::from(*first) & most;
    if value == most {
        for shift in [0, 7, 14, 21] {
            let (byte, after) = tail.split_first()?;
            tail = after;
            if shift == 21 {
                return None;
            }
            value += (usize::from(*byte) & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = tail;
    Some(value)
}

/// Reads a string (section 5.2) without decoding it, and whether it is in the Huffman code.
fn string<'a>(rest: &mut &'a [u8]) -> Option<(bool, &'a [u8])> {
    let huffman = rest.first()? & 0x80 != 0;
    let length = integer(rest, 7)?;
    let (text, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some((huffman, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of fields, each given as its bytes.
    fn block(fields: &[&[u8]]) -> Vec<u8> {
        fields.concat()
    }

    /// A field: its first bytes and a string.
    fn field(start: &[u8], text: &str) -> Vec<u8> {
        [start, &[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
    }

    #[test]
    fn the_authority_is_replaced_in_every_representation() {
        let path = "/var/lib/kubelet/device-plugins/kubelet.sock";
        let spelled = field(&[0x40], ":authority");
        let huffman = [&[0x40, 0x88], NAME_HUFFMAN].concat();
        for start in [&[0x41][..], &[0x01], &[0x11], &spelled, &huffman] {
            for value in [path, "%2Fvar%2Flib", "localhost", ""] {
                let method = [0x83];
                let other = field(&[0x44], "/v1beta1.Registration/Register");
                let resized = [0x3f, 0xe1, 0x1f];
                let before = block(&[&resized, &method, &field(start, value), &other, &[0xbe]]);
                let after = block(&[&resized, &method, start, VALUE, &other, &[0xbe]]);
                assert_eq!(with_plain_authority(&before).unwrap(), after, "{start:x?} {value:?}");
            }
        }
        // A value in the Huffman code, 200 bytes long.
        let long = [&[0x41, 0xff, 73][..], &[0xaa; 200]].concat();
        assert_eq!(with_plain_authority(&long).unwrap(), block(&[&[0x41], VALUE]));
    }

    #[test]
    fn a_block_without_authority_or_malformed_is_not_changed() {
        let other = field(&[0x40], "authority");
        for bad in [
            &[][..],
            &[0x83, 0xbe],
            &field(&other, "x"),
            &[0x41],
            &[0x41, 5, b'a'],
            &[0x41, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0xff],
        ] {
            assert_eq!(with_plain_authority(bad), None, "{bad:x?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_handled_without_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Some(plain) = with_plain_authority(&bytes) {
                // The result can be decoded, and replacing again changes nothing.
                proptest::prop_assert_eq!(with_plain_authority(&plain), Some(plain));
            }
        }
    }
}
