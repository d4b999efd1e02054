//! Tables of mounts from `/proc/<pid>/mountinfo` (proc_pid_mountinfo(5)).
//!
//! Lines are parsed by procfs, which leaves two things open: it takes only UTF-8, and it does not undo the
//! kernel's escapes. Lines that cannot be parsed are skipped: an unusual mount must not hide the others.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub use procfs::process::MountInfo;

/// The mounts in the order of the table, with `root` and `mount_point` as they really are. Other fields may
/// hold escapes; see [`unescape`].
pub fn parse(table: &[u8]) -> impl DoubleEndedIterator<Item = MountInfo> {
    table.split(|byte| *byte == b'\n').filter_map(parse_line)
}

/// The mounts at or below `dir`, in the order of the table. Only their lines are parsed: a node with many
/// pods has thousands of others.
pub fn parse_below(table: &[u8], dir: &Path) -> impl Iterator<Item = MountInfo> {
    // Without a slash at its end.
    let prefix = escape(dir.components().as_path().as_os_str().as_bytes());
    let mut lines: Vec<&[u8]> = table.split(|byte| *byte == b'\n').collect();
    lines.retain(|line| {
        line.split(|byte| *byte == b' ').nth(4).is_some_and(|point| point.starts_with(&prefix))
    });
    lines.into_iter().filter_map(parse_line).filter(move |mount| mount.mount_point.starts_with(dir))
}

fn parse_line(line: &[u8]) -> Option<MountInfo> {
    let mut mount = MountInfo::from_line(&ascii(line)).ok()?;
    mount.root = unescape(&mount.root).to_string_lossy().into_owned();
    mount.mount_point = PathBuf::from(unescape(mount.mount_point.to_str()?));
    Some(mount)
}

/// Escapes bytes that are not ASCII as well, because paths need not be UTF-8.
fn ascii(line: &[u8]) -> String {
    let mut out = String::with_capacity(line.len());
    for byte in line {
        match byte.is_ascii() {
            true => out.push(char::from(*byte)),
            false => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}

/// A path as the kernel writes it in the table (show_mountinfo of fs/proc_namespace.c).
fn escape(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for byte in path {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => out.extend(format!("\\{byte:03o}").bytes()),
            byte => out.push(*byte),
        }
    }
    out
}

/// A field without escapes: blanks, tabs, line ends, backslashes and (in options) commas are written as `\`
/// and three octal digits.
pub fn unescape(field: &str) -> OsString {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..3).filter(|_| *first == b'\\').and_then(octal);
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(out)
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_unescaped_and_broken_lines_are_skipped() {
        let table = b"36 35 98:0 / / rw - ext4 /dev/x rw\n\
            37 36 0:40 /r\\040t /a\\040b\\134c rw shared:1 - tmpfs tmpfs rw,size=4k\nbroken\n38 36 0:40 / /x rw\n\
            39 36 0:40 / /\xff\xc3\xbc rw - tmpfs none rw\n";
        let mounts: Vec<MountInfo> = parse(table).collect();
        let points: Vec<_> = mounts.iter().map(|mount| mount.mount_point.clone().into_os_string()).collect();
        let expected =
            [&b"/"[..], b"/a b\\c", b"/\xff\xc3\xbc"].map(|text| OsString::from_vec(text.to_vec()));
        assert_eq!(points, expected);
        assert_eq!((mounts[1].root.as_str(), mounts[1].fs_type.as_str()), ("/r t", "tmpfs"));
        assert_eq!(mounts[1].super_options["size"].as_deref(), Some("4k"));
    }

    #[test]
    fn mounts_below_a_directory() {
        let table = b"1 0 0:2 / / rw - ext4 /dev/x rw\n\
            2 1 0:3 / /a\\040b rw - tmpfs tmpfs rw\n3 1 0:4 / /a\\040b/\xff/c rw - tmpfs tmpfs rw\n\
            4 1 0:5 / /a\\040bc rw - tmpfs tmpfs rw\nbroken\n";
        let below = |dir: &str| parse_below(table, Path::new(dir)).map(|m| m.mnt_id).collect::<Vec<_>>();
        assert_eq!(
            [below("/a b"), below("/a b/"), below("/a"), below("/")],
            [vec![2, 3], vec![2, 3], vec![], vec![1, 2, 3, 4]]
        );
    }

    #[test]
    fn what_is_no_escape_stays_as_it_is() {
        assert_eq!(unescape("a\\134b\\9x\\04"), "a\\b\\9x\\04");
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(table: Vec<u8>) {
            let _ = parse(&table).count();
        }
    }
}
