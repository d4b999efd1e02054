//! Writing newc cpio archives, the format of an initramfs (the kernel's
//! Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! Archives can be written one after the other into one file: the kernel unpacks each over the one before.

use std::io::{self, Read, Write};

/// Each archive is filled up to a multiple of this, as cpio(1) does; the kernel only asks for 4.
const BLOCK: u64 = 512;
/// The name of the entry that ends an archive.
const TRAILER: &str = "TRAILER!!!";

/// What an entry is, as the file type bits of its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A folder; has no data.
    Directory,
    /// A file.
    File,
    /// A symbolic link; its data is the target.
    Symlink,
}

impl Kind {
    fn bits(self) -> u32 {
        match self {
            Self::Directory => 0o040_000,
            Self::File => 0o100_000,
            Self::Symlink => 0o120_000,
        }
    }
}

/// Writes one archive; all entries belong to root.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    written: u64,
    entries: u32,
}

impl<W: Write> Writer<W> {
    /// An archive that begins where `out` is now, which must be a multiple of 4 bytes from its start.
    pub fn new(out: W) -> Self {
        Self { out, written: 0, entries: 0 }
    }

    /// Adds an entry: `name` without a leading slash, the permission bits of `mode`, and `size` bytes of
    /// `data`.
    ///
    /// # Errors
    /// When it can't be written, `data` has not exactly `size` bytes, or these are 4 GiB or more.
    pub fn entry(
        &mut self,
        kind: Kind,
        name: &str,
        mode: u32,
        size: u64,
        mut data: impl Read,
    ) -> io::Result<()> {
        self.header(name, kind.bits() | (mode & 0o7777), if kind == Kind::Directory { 2 } else { 1 }, size)?;
        let copied = io::copy(&mut data.by_ref().take(size), &mut self.out)?;
        if copied != size || data.read(&mut [0])? != 0 {
            return Err(io::Error::other(format!("{name} changed its size while it was read")));
        }
        self.written += copied;
        self.fill_up_to(4)
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.header(TRAILER, 0, 1, 0)?;
        self.fill_up_to(BLOCK)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn header(&mut self, name: &str, mode: u32, links: u32, size: u64) -> io::Result<()> {
        let size = u32::try_from(size).map_err(|_| too_large(name))?;
        let name_size = u32::try_from(name.len() + 1).map_err(|_| too_large(name))?;
        self.entries += 1;
        // Inode, mode, user, group, links, time, size, device (2), special device (2), name size, check sum.
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
        let fields = fields.iter().map(|field| format!("{field:08X}")).collect::<String>();
        let header = format!("070701{fields}{name}\0");
        self.out.write_all(header.as_bytes())?;
        self.written += header.len() as u64;
        self.fill_up_to(4)
    }

    fn fill_up_to(&mut self, multiple: u64) -> io::Result<()> {
        let missing = self.written.next_multiple_of(multiple) - self.written;
        self.written += missing;
        io::copy(&mut io::repeat(0).take(missing), &mut self.out).map(drop)
    }
}

fn too_large(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("{name} does not fit into a cpio archive"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let mut writer = Writer::new(Vec::new());
        writer.entry(Kind::Directory, "bin", 0o755, 0, io::empty()).unwrap();
        writer.entry(Kind::File, "bin/hello", 0o644, 5, &b"hello"[..]).unwrap();
        let bytes = writer.finish().unwrap();
        assert_eq!(bytes.len() % 512, 0);
        let directory = "070701\
            00000001000041ED0000000000000000000000020000000000000000\
            000000000000000000000000000000000000000400000000bin\0";
        let padded = directory.len().next_multiple_of(4);
        assert_eq!(&bytes[..directory.len()], directory.as_bytes());
        assert_eq!(&bytes[directory.len()..padded], vec![0; padded - directory.len()]);
        let file = "070701\
            00000002000081A40000000000000000000000010000000000000005\
            000000000000000000000000000000000000000A00000000bin/hello\0";
        let at = padded + file.len().next_multiple_of(4);
        assert_eq!(&bytes[padded..padded + file.len()], file.as_bytes());
        assert_eq!(&bytes[at..at + 8], b"hello\0\0\0");
        assert_eq!(&bytes[at + 8..at + 14], b"070701");
        assert!(String::from_utf8_lossy(&bytes).trim_end_matches('\0').ends_with(TRAILER));
    }

    #[test]
    fn a_file_that_grows_or_shrinks_is_an_error() {
        for size in [4, 6] {
            let mut writer = Writer::new(Vec::new());
            let error = writer.entry(Kind::File, "x", 0o644, size, &b"hello"[..]).unwrap_err();
            assert!(error.to_string().contains('x'));
        }
        let mut writer = Writer::new(Vec::new());
        assert!(writer.entry(Kind::File, "x", 0o644, 1 << 32, io::empty()).is_err());
    }
}
