//! Decompressing what the kernel's build compresses, without programs of this machine.

use std::io::{self, Read};

/// How something is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Legacy frames, as the kernel's build makes them (`lz4 -l`).
    Lz4,
    /// Zstandard.
    Zstd,
    /// xz without the filters for machine code.
    Xz,
}

impl Format {
    /// By the first bytes.
    pub fn of(data: &[u8]) -> Option<Self> {
        let known = [
            (&[0x02, 0x21, 0x4c, 0x18][..], Self::Lz4),
            (&[0x28, 0xb5, 0x2f, 0xfd], Self::Zstd),
            (&[0xfd, b'7', b'z', b'X', b'Z', 0], Self::Xz),
        ];
        known.iter().find(|(magic, _)| data.starts_with(magic)).map(|(_, format)| *format)
    }

    /// Decompresses all of `data`.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn unpack(self, mut data: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Self::Lz4 => drop(lz4_flex::frame::FrameDecoder::new(data).read_to_end(&mut out)?),
            Self::Zstd => {
                let mut decoder = ruzstd::decoding::StreamingDecoder::new(data).map_err(io::Error::other)?;
                decoder.read_to_end(&mut out)?;
            }
            Self::Xz => {
                lzma_rs::xz_decompress(&mut data, &mut out)
                    .map_err(|error| io::Error::other(format!("{error:?}")))?;
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_first_bytes() {
        assert_eq!(Format::of(b"\x02\x21\x4c\x18rest"), Some(Format::Lz4));
        assert_eq!(Format::of(b"\x28\xb5\x2f\xfdrest"), Some(Format::Zstd));
        assert_eq!(Format::of(b"\xfd7zXZ\0rest"), Some(Format::Xz));
        assert_eq!(Format::of(b"\x7fELF"), None);
        assert_eq!(Format::of(b""), None);
    }

    #[test]
    fn each_format_is_unpacked() {
        let text = b"the same text, the same text, the same text";
        let mut xz = Vec::new();
        lzma_rs::xz_compress(&mut &text[..], &mut xz).unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
        let block = lz4_flex::block::compress(text);
        let mut lz4 = vec![0x02, 0x21, 0x4c, 0x18];
        lz4.extend((block.len() as u32).to_le_bytes());
        lz4.extend(block);
        for data in [xz, zstd, lz4] {
            let format = Format::of(&data).unwrap();
            assert_eq!(format.unpack(&data).unwrap(), text, "{format:?}");
            assert!(format.unpack(&data[..data.len() - 9]).map_or(true, |out| out != text), "{format:?}");
        }
    }
}
