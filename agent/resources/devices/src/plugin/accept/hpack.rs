//! The authority in a block of HTTP/2 headers (HPACK, RFC 7541). Pure.
//!
//! Only as much is read as is needed to walk over the fields: neither the tables nor the Huffman code.

/// Index of `:authority` in the static table.
const AUTHORITY: usize = 1;
/// The name where it is spelled out, plain and in the Huffman code.
const NAME: &[u8] = b":authority";
const NAME_HUFFMAN: &[u8] = &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f];
/// What is put there, as a string of HPACK. It is no longer than what was there, unless that was empty: an entry of the
/// receiver's dynamic table may be smaller than the sender's, so that it is kept longer, but not larger.
const VALUE: &[u8] = &[1, b'l'];

/// The block with another authority. `None` if it names none, or cannot be read.
pub fn with_plain_authority(block: &[u8]) -> Option<Vec<u8>> {
    let mut rest = block;
    let mut out = Vec::with_capacity(block.len());
    let mut found = false;
    while let Some(&first) = rest.first() {
        let field = rest;
        let prefix = match first {
            // An entry of a table: what was put there before.
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

/// An integer with a prefix of so many bits (section 5.1), of at most three further bytes.
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

/// A string (section 5.2) as it is written, and whether that is in the Huffman code.
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

    /// Fields, each as its bytes.
    fn block(fields: &[&[u8]]) -> Vec<u8> {
        fields.concat()
    }

    /// After its first bytes, a string.
    fn field(start: &[u8], text: &str) -> Vec<u8> {
        [start, &[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
    }

    #[test]
    fn every_way_to_write_it() {
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
    fn nothing_to_do_or_not_to_be_read() {
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
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Some(plain) = with_plain_authority(&bytes) {
                // What comes out can be read, and stays as it is.
                proptest::prop_assert_eq!(with_plain_authority(&plain), Some(plain));
            }
        }
    }
}
