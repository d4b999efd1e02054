//! Rewrites what a client sends over HTTP/2, frame by frame, so that requests have a plain authority. Pure.

use super::hpack;

/// Length of the connection preface (RFC 9113, section 3.4).
pub(super) const PREFACE: usize = 24;
/// Length of a frame header: length (3 bytes), type, flags and stream (4 bytes).
const HEADER: usize = 9;
/// Type of the frame that begins a header block.
const HEADERS: u8 = 1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// Largest frame that a server accepts by default, in bytes.
const LARGEST: usize = 16 << 10;

/// Takes bytes in pieces of any size and returns them rewritten. What it does not understand stays unchanged:
/// the server refuses it.
#[derive(Debug)]
pub struct Frames {
    /// Bytes to pass on unchanged before the next frame begins.
    pass: usize,
    /// The frame that is being read, from its header on.
    frame: Vec<u8>,
}

impl Default for Frames {
    fn default() -> Self {
        Self { pass: PREFACE, frame: Vec::new() }
    }
}

impl Frames {
    /// Takes received bytes; appends to `out` what can be passed on.
    pub fn take(&mut self, mut input: &[u8], out: &mut Vec<u8>) {
        while !input.is_empty() {
            if self.pass > 0 {
                let (now, rest) = input.split_at(self.pass.min(input.len()));
                out.extend_from_slice(now);
                self.pass -= now.len();
                input = rest;
                continue;
            }
            let missing = self.wanted() - self.frame.len();
            let (now, rest) = input.split_at(missing.min(input.len()));
            self.frame.extend_from_slice(now);
            input = rest;
            if self.frame.len() == HEADER && !self.is_to_change() {
                self.pass = self.length();
                out.append(&mut self.frame);
            } else if self.frame.len() == self.wanted() {
                match changed(&self.frame) {
                    Some(frame) => out.extend_from_slice(&frame),
                    None => out.extend_from_slice(&self.frame),
                }
                self.frame.clear();
            }
        }
    }

    /// Number of bytes of the frame to read before the next decision.
    fn wanted(&self) -> usize {
        if self.frame.len() < HEADER { HEADER } else { HEADER + self.length() }
    }

    /// Length of the frame's payload.
    fn length(&self) -> usize {
        self.frame[..3].iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
    }

    /// Whether the frame holds a complete header block. Requests of a few hundred bytes are not split into
    /// several frames.
    fn is_to_change(&self) -> bool {
        self.frame[3] == HEADERS && self.frame[4] & END_HEADERS != 0 && self.length() <= LARGEST
    }
}

/// The frame with a rewritten header block; `None` if it stays unchanged.
fn changed(frame: &[u8]) -> Option<Vec<u8>> {
    let (header, payload) = frame.split_at_checked(HEADER)?;
    let flags = header[4];
    let (mut start, mut padding) = (0, 0);
    if flags & PADDED != 0 {
        (start, padding) = (1, usize::from(*payload.first()?));
    }
    if flags & PRIORITY != 0 {
        start += 5;
    }
    let end = payload.len().checked_sub(padding)?;
    let block = hpack::with_plain_authority(payload.get(start..end)?)?;
    let length = u32::try_from(start + block.len() + padding).ok()?;
    let mut out = Vec::with_capacity(frame.len());
    out.extend_from_slice(&length.to_be_bytes()[1..]);
    out.extend_from_slice(&header[3..]);
    out.extend_from_slice(&payload[..start]);
    out.extend_from_slice(&block);
    out.extend_from_slice(&payload[end..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRI: &[u8; PREFACE] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// The output for input in pieces of so many bytes.
    fn through(input: &[u8], pieces: usize) -> Vec<u8> {
        let (mut frames, mut out) = (Frames::default(), Vec::new());
        for piece in input.chunks(pieces) {
            frames.take(piece, &mut out);
        }
        out
    }

    #[test]
    fn frames_are_rewritten_whatever_the_size_of_the_pieces() {
        let (old, new) = (b"\x83\x41\x05/sock\x84", b"\x83\x41\x01l\x84");
        let both = |block: &[u8]| {
            let padded = [&[2, 0, 0, 0, 0, 16], block, &[0, 0]].concat();
            [
                PRI,
                &frame(4, 0, &[0, 3, 0, 0, 0, 100])[..],
                &frame(HEADERS, END_HEADERS, block),
                &frame(0, 1, &[7; 3000]),
                &frame(HEADERS, END_HEADERS | PADDED | PRIORITY, &padded),
                &frame(6, 0, &[]),
            ]
            .concat()
        };
        for pieces in [1, 2, 7, 24, 33, 100, 1 << 20] {
            assert_eq!(through(&both(old), pieces), both(new), "{pieces} bytes at a time");
        }
    }

    #[test]
    fn frames_that_are_not_understood_stay_unchanged() {
        let block = b"\x83\x41\x05/sock\x84";
        for strange in [
            // The block continues in another frame.
            frame(HEADERS, 0, block),
            // Larger than a server accepts.
            frame(HEADERS, END_HEADERS, &[0x83; LARGEST + 1]),
            // More padding than there is.
            frame(HEADERS, END_HEADERS | PADDED, &[200, 0x83]),
            frame(HEADERS, END_HEADERS | PADDED, &[]),
            frame(HEADERS, END_HEADERS | PRIORITY, &[0x83]),
            frame(HEADERS, END_HEADERS, &[0x41, 200, b'a']),
        ] {
            let input = [PRI, &strange[..], &frame(6, 0, &[1; 8])].concat();
            assert_eq!(through(&input, 10), input);
        }
    }
}
