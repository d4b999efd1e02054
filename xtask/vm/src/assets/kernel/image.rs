//! From a compressed kernel image (bzImage) to the ELF file inside, which QEMU starts by its PVH entry
//! without the time the kernel takes to unpack itself.
//!
//! The header is described in the kernel's Documentation/arch/x86/boot.rst.

use std::io;

use thiserror::Error;

use super::unpack::Format;

/// `HdrS`, at its place in the header.
const MAGIC: (usize, [u8; 4]) = (0x202, *b"HdrS");
/// Where the number of 512-byte sectors of real-mode code is; 0 means 4.
const SETUP_SECTS: usize = 0x1f1;
/// Where the boot protocol's version is; from 2.08 on it says where the payload is.
const VERSION: (usize, u16) = (0x206, 0x0208);
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// A kernel image can't be unpacked.
#[derive(Debug, Error)]
pub enum ImageError {
    /// It has no header of a bzImage.
    #[error("it is no x86 kernel image")]
    NoHeader,
    /// It is too old to say where its payload is.
    #[error("its boot protocol is {}.{:02}, older than 2.08", .0 >> 8, .0 & 0xff)]
    Protocol(u16),
    /// The payload ends behind the file.
    #[error("its payload at {offset} of {length} bytes is not all there")]
    Short {
        /// Where it begins, in bytes from the start of the file.
        offset: usize,
        /// Its length in bytes.
        length: usize,
    },
    /// The payload's compression is none of lz4 and zstd.
    #[error("its payload is compressed in a way unknown here: it begins with {0:02x?}")]
    Format(Vec<u8>),
    /// The payload is damaged.
    #[error("its payload can't be decompressed")]
    Unpack(#[source] io::Error),
    /// What was in it is not what the header promised.
    #[error("its payload has {found} bytes, not {promised}, or is no ELF file")]
    NotElf {
        /// How much was unpacked.
        found: usize,
        /// How much there should be.
        promised: u32,
    },
}

/// The ELF file in a bzImage.
///
/// # Errors
/// When `image` is none, or is compressed in an unknown way, or damaged.
pub fn vmlinux(image: &[u8]) -> Result<Vec<u8>, ImageError> {
    let (data, size) = payload(image)?;
    let unknown = || ImageError::Format(data.iter().take(6).copied().collect());
    // xz payloads use a filter for machine code that is not known here.
    let format = Format::of(data).filter(|format| *format != Format::Xz).ok_or_else(unknown)?;
    let elf = format.unpack(data).map_err(ImageError::Unpack)?;
    if elf.starts_with(b"\x7fELF") && elf.len() == size as usize {
        Ok(elf)
    } else {
        Err(ImageError::NotElf { found: elf.len(), promised: size })
    }
}

/// The compressed payload, and how large it is when unpacked: the build appends that to formats that don't
/// know.
fn payload(image: &[u8]) -> Result<(&[u8], u32), ImageError> {
    let magic = image.get(MAGIC.0..MAGIC.0 + 4);
    if magic != Some(&MAGIC.1) {
        return Err(ImageError::NoHeader);
    }
    let bytes = |at: usize| image.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let number = |at: usize| bytes(at).ok_or(ImageError::NoHeader);
    let version = (number(VERSION.0)? & 0xffff) as u16;
    if version < VERSION.1 {
        return Err(ImageError::Protocol(version));
    }
    let sectors = match number(SETUP_SECTS)? & 0xff {
        0 => 4,
        sectors => sectors as usize,
    };
    let offset = (sectors + 1) * 512 + number(PAYLOAD_OFFSET)? as usize;
    let length = number(PAYLOAD_LENGTH)? as usize;
    let payload = image.get(offset..offset + length).and_then(|payload| payload.split_last_chunk::<4>());
    let (data, size) = payload.ok_or(ImageError::Short { offset, length })?;
    Ok((data, u32::from_le_bytes(*size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bzImage with `sectors` of setup code and `payload` 64 bytes behind it.
    fn image(sectors: u8, payload: &[u8]) -> Vec<u8> {
        let setup = if sectors == 0 { 4 } else { usize::from(sectors) };
        let mut image = vec![0; (setup + 1) * 512 + 64];
        image[SETUP_SECTS] = sectors;
        image[MAGIC.0..MAGIC.0 + 4].copy_from_slice(&MAGIC.1);
        image[VERSION.0..VERSION.0 + 2].copy_from_slice(&0x020fu16.to_le_bytes());
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&64u32.to_le_bytes());
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend(payload);
        image.extend(b"what follows the payload");
        image
    }

    fn packed(elf: &[u8], size: u32) -> Vec<u8> {
        let mut data = ruzstd::encoding::compress_to_vec(elf, ruzstd::encoding::CompressionLevel::Fastest);
        data.extend(size.to_le_bytes());
        data
    }

    #[test]
    fn the_elf_file_comes_out() {
        let elf = b"\x7fELF and all the rest of the kernel";
        let payload = packed(elf, elf.len() as u32);
        for sectors in [0, 1, 4, 39] {
            assert_eq!(vmlinux(&image(sectors, &payload)).unwrap(), elf, "{sectors}");
        }
    }

    #[test]
    fn a_damaged_image_is_an_error_that_says_why() {
        let elf = b"\x7fELF and all the rest of the kernel";
        let good = image(4, &packed(elf, elf.len() as u32));
        assert!(matches!(vmlinux(elf), Err(ImageError::NoHeader)));
        assert!(matches!(vmlinux(&[]), Err(ImageError::NoHeader)));
        assert!(matches!(vmlinux(&good[..0x210]), Err(ImageError::NoHeader)));
        assert!(matches!(vmlinux(&good[..good.len() - 40]), Err(ImageError::Short { .. })));
        let mut old = good.clone();
        old[VERSION.0] = 7;
        assert_eq!(vmlinux(&old).unwrap_err().to_string(), "its boot protocol is 2.07, older than 2.08");
        assert!(matches!(vmlinux(&image(4, b"\x1f\x8b gzip")), Err(ImageError::Format(_))));
        assert!(matches!(vmlinux(&image(4, &packed(elf, 7))), Err(ImageError::NotElf { promised: 7, .. })));
        assert!(matches!(vmlinux(&image(4, b"")), Err(ImageError::Short { .. })));
        assert!(matches!(vmlinux(&image(4, b"\x28\xb5\x2f\xfd????")), Err(ImageError::Unpack(_))));
    }
}
