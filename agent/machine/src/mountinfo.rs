//! Tables of mounts, as /proc/<pid>/mountinfo has them (proc_pid_mountinfo(5)).
//!
//! Lines are parsed by procfs, which leaves two things open: it takes only UTF-8, and it does not undo the kernel's
//! escapes. Lines that cannot be parsed are skipped: an unusual mount must not hide the others.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

pub use procfs::process::MountInfo;

/// The mounts in the order of the table, with `root` and `mount_point` as they really are. Other fields may hold escapes;
/// see [`unescape`].
pub fn parse(table: &[u8]) -> impl DoubleEndedIterator<Item = MountInfo> {
    table.split(|byte| *byte == b'\n').filter_map(parse_line)
}

fn parse_line(line: &[u8]) -> Option<MountInfo> {
    let mut mount = MountInfo::from_line(&ascii(line)).ok()?;
    mount.root = unescape(&mount.root).to_string_lossy().into_owned();
    mount.mount_point = PathBuf::from(unescape(mount.mount_point.to_str()?));
    Some(mount)
}

/// Bytes that are no ASCII, escaped as well: paths need not be UTF-8.
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

/// A field without escapes: blanks, tabs, line ends, backslashes and (in options) commas are written as `\` and three
/// octal digits.
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
