//! Topic limit_writes: which process writes a limit of a cgroup.
//!
//! Every write to a file of a cgroup, of v1 and of v2, passes `cgroup_file_write`. It has no tracepoint, so
//! this is a kprobe. Such writes are rare: a few for each container that starts. Nothing is recorded of other
//! files, nor of the agent's own writes.

use aya_ebpf::{helpers::bpf_probe_read_kernel_str_bytes, macros::kprobe, programs::ProbeContext};
use nodewarden_ebpf_abi::{
    Kind, LIMIT_FILE_WORDS, LIMIT_FILES, LIMIT_TEXT_LEN, LimitWriteRecord, limit_file_words,
};

use crate::{
    globals::*,
    read::{Ptr, probe},
    ring::{command, current, emit, header},
    slots::{memory_cgroup_id, space_of},
};

globals! {
    /// kernfs_open_file
    OFF_OPEN_KN: u32 = 0;
    /// kernfs_node
    OFF_KN_PARENT: u32 = 0;
    OFF_KN_PRIV: u32 = 0;
    /// The agent's own process, in the machine's first pid namespace.
    OWN_TGID: u32 = 0;
}

/// The name of each file in `LIMIT_FILES`, as it is compared.
const NAMES: [[u64; LIMIT_FILE_WORDS]; LIMIT_FILES.len()] = [
    limit_file_words(LIMIT_FILES[0]),
    limit_file_words(LIMIT_FILES[1]),
    limit_file_words(LIMIT_FILES[2]),
    limit_file_words(LIMIT_FILES[3]),
];

/// `ssize_t cgroup_file_write(struct kernfs_open_file *of, char *buf, size_t nbytes, loff_t off)`. The text
/// in `buf` is ended by a zero (`kernfs_fop_write_iter`).
#[kprobe]
pub fn cgroup_file_write(ctx: ProbeContext) -> u32 {
    if let (Some(open), Some(text)) = (ctx.arg::<Ptr>(0), ctx.arg::<Ptr>(1)) {
        let _ = note(open, text);
    }
    0
}

/// Sends a record if the file is a limit of a cgroup in a hierarchy in which something is counted. The result
/// only makes `?` possible.
#[inline(always)]
fn note(open: Ptr, text: Ptr) -> Option<()> {
    let node: Ptr = probe(open, get(&OFF_OPEN_KN))?;
    let file = limit_file(probe(node, get(&OFF_KN_NAME))?)?;
    let task = current();
    let pid: u32 = probe(task, get(&OFF_TASK_TGID))?;
    if pid == get(&OWN_TGID) {
        return None;
    }
    let directory: Ptr = probe(node, get(&OFF_KN_PARENT))?;
    let id: u64 = probe(directory, get(&OFF_KN_ID))?;
    // Of a directory this is its cgroup.
    let cgroup: Ptr = probe(directory, get(&OFF_KN_PRIV))?;
    let root: Ptr = probe(cgroup, get(&OFF_CGROUP_ROOT))?;
    let space = space_of(probe(root, get(&OFF_ROOT_HIERARCHY))?)?;
    emit::<LimitWriteRecord>(Kind::LimitWrite, |record| {
        // SAFETY: the record is reserved and as large as its type; every field is written, the text up to its
        // end.
        unsafe {
            (*record).header = header(Kind::LimitWrite, space, id);
            (*record).writer_cgroup = memory_cgroup_id(task);
            (*record).pid = pid;
            (*record).file = file;
            (*record).command = command(task);
            (&raw mut (*record).text[0]).write(0);
            let bytes =
                core::slice::from_raw_parts_mut((&raw mut (*record).text).cast::<u8>(), LIMIT_TEXT_LEN);
            let _ = bpf_probe_read_kernel_str_bytes(text, bytes);
        }
    });
    Some(())
}

/// Index in `LIMIT_FILES` of the file of this name; `None` for others.
#[inline(always)]
fn limit_file(name: Ptr) -> Option<u32> {
    let mut words = [0u64; LIMIT_FILE_WORDS];
    // SAFETY: the words as bytes.
    let bytes =
        unsafe { core::slice::from_raw_parts_mut((&raw mut words).cast::<u8>(), LIMIT_FILE_WORDS * 8) };
    // SAFETY: the helper checks the address itself. What it does not write stays zero.
    unsafe { bpf_probe_read_kernel_str_bytes(name, bytes).ok()? };
    // One by one: a comparison of arrays would be a call of memcmp, which does not exist here.
    let is =
        |name: &[u64; LIMIT_FILE_WORDS]| words[0] == name[0] && words[1] == name[1] && words[2] == name[2];
    match () {
        () if is(&NAMES[0]) => Some(0),
        () if is(&NAMES[1]) => Some(1),
        () if is(&NAMES[2]) => Some(2),
        () if is(&NAMES[3]) => Some(3),
        () => None,
    }
}
