//! The SPDY/3.1 frames that a client of a runtime's streaming server needs. Pure.
//!
//! Headers are compressed with zlib in SPDY. Ours are sent in stored blocks, which every decoder reads; the
//! server's are not decoded, because only the number of the stream matters.

/// A frame of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Data {
        stream: u32,
        bytes: Vec<u8>,
        /// Whether the stream ends with this frame.
        end: bool,
    },
    /// The server aborts a stream.
    Reset {
        stream: u32,
    },
    /// A ping, to be sent back unchanged.
    Ping {
        id: u32,
    },
    GoAway,
    /// Replies, settings and window updates, which are ignored.
    Other,
}

/// Length of the head of a frame, which contains the length of the frame.
pub const HEAD: usize = 8;
/// Bit of the first byte of a control frame.
const CONTROL: u8 = 0x80;
const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
/// Flag: the sender ends this stream.
const FIN: u8 = 1;
/// zlib: deflate with a window of 32 KiB, no preset dictionary.
const ZLIB: [u8; 2] = [0x78, 0x01];
/// An empty stored block, which flushes the decoder.
const FLUSH: [u8; 5] = [0, 0, 0, 0xff, 0xff];

/// Number of bytes after the head.
pub fn length(head: [u8; HEAD]) -> usize {
    usize::from(head[5]) << 16 | usize::from(head[6]) << 8 | usize::from(head[7])
}

/// Parses a whole frame.
pub fn read(head: [u8; HEAD], body: Vec<u8>) -> Frame {
    let number = |bytes: &[u8]| -> Option<u32> {
        Some(u32::from_be_bytes(bytes.first_chunk::<4>().copied()?) & 0x7fff_ffff)
    };
    if head[0] & CONTROL == 0 {
        let stream = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        return Frame::Data { stream, bytes: body, end: head[4] & FIN != 0 };
    }
    match (u16::from_be_bytes([head[2], head[3]]), number(&body)) {
        (RST_STREAM, Some(stream)) => Frame::Reset { stream },
        // All 32 bits are the number.
        (PING, Some(_)) => Frame::Ping { id: u32::from_be_bytes([body[0], body[1], body[2], body[3]]) },
        (GOAWAY, _) => Frame::GoAway,
        _ => Frame::Other,
    }
}

/// A frame that opens a stream with one header. `first`: whether it is the first stream of the connection.
pub fn open(stream: u32, name: &str, value: &str, first: bool) -> Vec<u8> {
    let mut headers = 1u32.to_be_bytes().to_vec();
    for text in [name, value] {
        headers.extend((text.len() as u32).to_be_bytes());
        headers.extend(text.as_bytes());
    }
    let stored = headers.len() as u16;
    let mut body = stream.to_be_bytes().to_vec();
    // No associated stream, no priority, no slot.
    body.extend([0; 6]);
    if first {
        body.extend(ZLIB);
    }
    body.push(0);
    body.extend(stored.to_le_bytes());
    body.extend((!stored).to_le_bytes());
    body.extend(headers);
    body.extend(FLUSH);
    control(SYN_STREAM, &body)
}

/// A frame with data for a stream, at most 2^24 − 1 bytes; `end`: whether it is the last one.
pub fn data(stream: u32, bytes: &[u8], end: bool) -> Vec<u8> {
    let [_, length @ ..] = (bytes.len() as u32).to_be_bytes();
    let mut frame = stream.to_be_bytes().to_vec();
    frame.push(if end { FIN } else { 0 });
    frame.extend(length);
    frame.extend(bytes);
    frame
}

/// The response to a ping.
pub fn pong(id: u32) -> Vec<u8> {
    control(PING, &id.to_be_bytes())
}

fn control(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = ((u16::from(CONTROL) << 8) | VERSION).to_be_bytes().to_vec();
    frame.extend(kind.to_be_bytes());
    let [_, length @ ..] = (body.len() as u32).to_be_bytes();
    frame.push(0);
    frame.extend(length);
    frame.extend(body);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(frame: &[u8]) -> Frame {
        let head = *frame.first_chunk::<HEAD>().unwrap();
        assert_eq!(length(head), frame.len() - HEAD);
        read(head, frame[HEAD..].to_vec())
    }

    #[test]
    fn frames_there_and_back() {
        let bytes = vec![7; 70_000];
        assert_eq!(whole(&data(5, &bytes, false)), Frame::Data { stream: 5, bytes, end: false });
        assert_eq!(whole(&data(5, b"", true)), Frame::Data { stream: 5, bytes: vec![], end: true });
        assert_eq!(whole(&pong(0x8000_0002)), Frame::Ping { id: 0x8000_0002 });
        assert_eq!(whole(&control(RST_STREAM, &[0, 0, 0, 3, 0, 0, 0, 5])), Frame::Reset { stream: 3 });
        assert_eq!(whole(&control(GOAWAY, &[0; 8])), Frame::GoAway);
        for (kind, body) in
            [(2, &[0, 0, 0, 1][..]), (4, &[0; 4]), (9, &[0; 8]), (PING, &[0, 0]), (RST_STREAM, &[])]
        {
            assert_eq!(whole(&control(kind, body)), Frame::Other, "{kind}");
        }
    }

    #[test]
    fn a_stream_is_opened_with_a_stored_header() {
        let frame = open(3, "streamtype", "stdin", true);
        let mut expected = vec![0x80, 3, 0, 1, 0, 0, 0, 49, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0];
        expected.extend([0x78, 1, 0, 27, 0, 228, 255, 0, 0, 0, 1, 0, 0, 0, 10]);
        expected.extend(b"streamtype\0\0\0\x05stdin\0\0\0\xff\xff");
        assert_eq!(frame, expected);
        assert_eq!(open(5, "streamtype", "stdin", false).len(), frame.len() - ZLIB.len());
    }
}
