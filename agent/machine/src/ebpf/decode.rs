//! Bytes of the ring buffer to records.

use std::mem::size_of;
use std::ptr;

use nodewarden_ebpf_abi::{
    CgroupLifecycleRecord, CgroupRecord, DeviceRecord, ExitRecord, Header, Kind, OomRecord,
};

/// One record, as the kernel side wrote it.
#[derive(Clone, Copy)]
pub enum Record {
    Created(CgroupRecord),
    Removed(CgroupLifecycleRecord),
    Populated(CgroupLifecycleRecord),
    Emptied(CgroupLifecycleRecord),
    Moved(CgroupLifecycleRecord),
    Oom(OomRecord),
    Exit(ExitRecord),
    Device(DeviceRecord),
    Reclaim(Header),
}

impl Record {
    pub fn header(&self) -> &Header {
        match self {
            Self::Created(r) => &r.header,
            Self::Removed(r) | Self::Populated(r) | Self::Emptied(r) | Self::Moved(r) => &r.header,
            Self::Oom(r) => &r.header,
            Self::Exit(r) => &r.header,
            Self::Device(r) => &r.header,
            Self::Reclaim(header) => header,
        }
    }
}

/// Decodes one record; `None` when its kind or its length is none of ours.
pub fn decode(bytes: &[u8]) -> Option<Record> {
    let kind = read::<u32>(bytes)?;
    let kind = *Kind::ALL.get(kind as usize)?;
    Some(match kind {
        Kind::Created => Record::Created(read(bytes)?),
        Kind::Removed => Record::Removed(read(bytes)?),
        Kind::Populated => Record::Populated(read(bytes)?),
        Kind::Emptied => Record::Emptied(read(bytes)?),
        Kind::Moved => Record::Moved(read(bytes)?),
        Kind::Oom => Record::Oom(read(bytes)?),
        Kind::Exit => Record::Exit(read(bytes)?),
        Kind::Device => Record::Device(read(bytes)?),
        Kind::Reclaim => Record::Reclaim(read(bytes)?),
    })
}

/// A record type of the shared crate: plain integers and byte arrays, for which any bytes are a value.
trait Plain: Copy {}
impl Plain for u32 {}
impl Plain for CgroupRecord {}
impl Plain for CgroupLifecycleRecord {}
impl Plain for OomRecord {}
impl Plain for ExitRecord {}
impl Plain for DeviceRecord {}
impl Plain for Header {}

fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: long enough, read unaligned, and every bit pattern is a value of a `Plain` type.
    Some(unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// Text up to the first zero byte; what is no UTF-8 is replaced.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_foreign_bytes_are_refused() {
        assert!(decode(&[]).is_none());
        assert!(decode(&99u32.to_ne_bytes()).is_none());
        assert!(decode(&(Kind::Oom as u32).to_ne_bytes()).is_none());
    }

    #[test]
    fn a_record_comes_back() {
        let mut bytes = vec![0u8; size_of::<CgroupLifecycleRecord>()];
        bytes[0] = Kind::Moved as u8;
        bytes[16] = 7;
        assert!(matches!(decode(&bytes), Some(Record::Moved(r)) if r.header.cgroup == 7));
    }

    #[test]
    fn commands_end_at_zero() {
        assert_eq!(text(b"sh\0junk"), "sh");
        assert_eq!(text(b"full"), "full");
    }
}
