//! The bytes of read(2) on a fanotify group that reports directories and names (fanotify(7),
//! linux/fanotify.h).

/// `FANOTIFY_METADATA_VERSION`.
const VERSION: u8 = 3;
/// `FAN_EVENT_INFO_TYPE_DFID_NAME`.
const DIRECTORY_AND_NAME: u8 = 2;
/// Length of `struct fanotify_event_info_header`, behind which is the file system's id.
const INFO_HEADER: usize = 4;
/// `FILEID_KERNFS` of linux/exportfs.h: the handle is the directory's 64-bit id.
const KERNFS: i32 = 0xfe;

/// `FAN_Q_OVERFLOW`.
const OVERFLOW: u64 = 0x4000;
/// `FAN_CREATE`.
const CREATE: u64 = 0x0100;

/// That a process has changed a file of a kernfs, or made a directory in it.
#[derive(Debug, PartialEq, Eq)]
pub struct Notice<'a> {
    /// The process, or its thread that did it where threads are reported.
    pub pid: i32,
    /// The id of the file system, as by statvfs(3).
    pub file_system: u64,
    /// The id of the directory in it.
    pub cgroup: u64,
    /// The name of the file, or of the new directory.
    pub name: &'a [u8],
    /// It is a new directory.
    pub is_new: bool,
}

/// What one read(2) returned.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Notices<'a> {
    /// In the kernel's order.
    pub notices: Vec<Notice<'a>>,
    /// There were more than the kernel kept.
    pub overflowed: bool,
}

/// The notices in what was read. What is no notice of a kernfs is left out, and so is everything behind a
/// length that cannot be right.
pub fn notices(mut bytes: &[u8]) -> Notices<'_> {
    let mut all = Notices::default();
    while let Some(length) = word(bytes, 0).and_then(|length| usize::try_from(length).ok())
        && let Some((event, rest)) = bytes.split_at_checked(length)
        && !event.is_empty()
    {
        all.notices.extend(notice(event));
        all.overflowed |= mask(event).is_some_and(|mask| mask & OVERFLOW != 0);
        bytes = rest;
    }
    all
}

/// The notice of one event (`struct fanotify_event_metadata`, with records of information behind it).
fn notice(event: &[u8]) -> Option<Notice<'_>> {
    let header = usize::from(u16::from_ne_bytes(array(event, 6)?));
    let pid = i32::from_ne_bytes(array(event, 20)?);
    let mut infos = event.get(header..).filter(|_| event.get(4) == Some(&VERSION))?;
    while let Some(length) = array(infos, 2).map(|length| usize::from(u16::from_ne_bytes(length)))
        && let Some((info, rest)) = infos.split_at_checked(length)
        && !info.is_empty()
    {
        if info[0] == DIRECTORY_AND_NAME {
            return of_kernfs(info.get(INFO_HEADER..)?, pid, mask(event)? & CREATE != 0);
        }
        infos = rest;
    }
    None
}

/// What has happened in an event.
fn mask(event: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(array(event, 8)?))
}

/// The file system's id, `struct file_handle`, and the name with a zero behind it.
fn of_kernfs(place: &[u8], pid: i32, is_new: bool) -> Option<Notice<'_>> {
    let file_system = u64::from_ne_bytes(array(place, 0)?);
    let handle = place.get(8..)?;
    let length = usize::try_from(word(handle, 0)?).ok()?;
    let is_kernfs = i32::from_ne_bytes(array(handle, 4)?) == KERNFS;
    let cgroup = u64::from_ne_bytes(array(handle, 8)?);
    let name = handle.get(8usize.checked_add(length)?..)?;
    let end = name.iter().position(|byte| *byte == 0)?;
    is_kernfs.then(|| Notice { pid, file_system, cgroup, name: &name[..end], is_new })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(array(bytes, at)?))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(pid: i32, kind: u8, handle_type: i32, id: u64, name: &[u8]) -> Vec<u8> {
        let mut info = vec![kind, 0, 0, 0];
        info.extend([7; 8]);
        info.extend(8u32.to_ne_bytes());
        info.extend(handle_type.to_ne_bytes());
        info.extend(id.to_ne_bytes());
        info.extend(name);
        info.push(0);
        info.resize(info.len().next_multiple_of(4), 0);
        let length = info.len() as u16;
        info[2..4].copy_from_slice(&length.to_ne_bytes());
        let mut event = Vec::new();
        event.extend((24 + u32::from(length)).to_ne_bytes());
        event.extend([VERSION, 0]);
        event.extend(24u16.to_ne_bytes());
        event.extend(2u64.to_ne_bytes());
        event.extend((-1i32).to_ne_bytes());
        event.extend(pid.to_ne_bytes());
        event.extend(info);
        event
    }

    #[test]
    fn directory_name_and_process_of_each_event_are_read() {
        let mut bytes = event(7, DIRECTORY_AND_NAME, KERNFS, 42, b"memory.max");
        bytes.extend(event(8, 1, KERNFS, 43, b"cpu.max"));
        bytes.extend(event(9, DIRECTORY_AND_NAME, 1, 44, b"cpu.max"));
        bytes.extend(event(10, DIRECTORY_AND_NAME, KERNFS, 45, b""));
        let file_system = u64::from_ne_bytes([7; 8]);
        let of = |pid, cgroup, name: &'static str, is_new| Notice {
            pid,
            file_system,
            cgroup,
            name: name.as_bytes(),
            is_new,
        };
        let mut made = event(11, DIRECTORY_AND_NAME, KERNFS, 46, b"pod1");
        made[8..16].copy_from_slice(&(CREATE | 0x4000_0000).to_ne_bytes());
        assert_eq!(notices(&made).notices, [of(11, 46, "pod1", true)]);
        assert_eq!(notices(&bytes).notices, [of(7, 42, "memory.max", false), of(10, 45, "", false)]);
        assert_eq!(notices(&bytes[..bytes.len() - 1]).notices.len(), 1);
        assert!(!notices(&bytes).overflowed);
        let mut of_later_version = event(7, DIRECTORY_AND_NAME, KERNFS, 42, b"memory.max");
        of_later_version[4] = VERSION + 1;
        assert_eq!(notices(&of_later_version), Notices::default());
        // Without any information: `fanotify_event_metadata` alone.
        let mut overflow = event(0, 1, 1, 0, b"")[..24].to_vec();
        overflow[..4].copy_from_slice(&24u32.to_ne_bytes());
        overflow[8..16].copy_from_slice(&OVERFLOW.to_ne_bytes());
        assert_eq!(notices(&overflow), Notices { notices: Vec::new(), overflowed: true });
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..60usize, at in 0..60usize, byte: u8) {
            let _ = notices(&bytes);
            let mut own = event(7, DIRECTORY_AND_NAME, KERNFS, 42, b"memory.max");
            let at = at % own.len();
            own[at] = byte;
            own.truncate(own.len() - cut % own.len());
            let _ = notices(&own);
        }
    }
}
