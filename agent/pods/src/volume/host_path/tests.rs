use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::*;

#[test]
fn the_path_must_match_its_type() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("dir")).unwrap();
    fs::write(at("file"), "").unwrap();
    let _listener = UnixListener::bind(at("socket")).unwrap();
    symlink(at("dir"), at("link")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    let device = Path::new("/dev/null").to_owned();
    for (kind, good) in [
        ("", vec!["dir", "file", "socket", "link", "dangling", "none"]),
        ("Directory", vec!["dir", "link"]),
        ("File", vec!["file"]),
        ("Socket", vec!["socket"]),
        ("CharDevice", vec![]),
        ("BlockDevice", vec![]),
    ] {
        for name in ["dir", "file", "socket", "link", "dangling", "none"] {
            let result = check(&at(name), kind);
            assert_eq!(result.is_ok(), good.contains(&name), "{name} as {kind:?}: {result:?}");
        }
    }
    check(&device, "CharDevice").unwrap();
    let words = |name: &str, kind: &str| {
        let error = check(&at(name), kind).unwrap_err().to_string();
        error.replace(&at(name).display().to_string(), "X")
    };
    for (kind, what) in [
        ("Directory", "a directory"),
        ("DirectoryOrCreate", "a directory"),
        ("Socket", "a socket file"),
        ("CharDevice", "a character device"),
        ("BlockDevice", "a block device"),
    ] {
        assert_eq!(words("file", kind), format!("hostPath type check failed: X is not {what}"));
    }
    assert_eq!(words("dir", "FileOrCreate"), "hostPath type check failed: X is not a file");
    assert_eq!(words("dir", "Dir"), "hostPath type check failed: X is of a type that is not known");
}

#[test]
fn a_missing_path_is_created_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("a/b");
    check(&new, "DirectoryOrCreate").unwrap();
    assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o755);
    check(&new, "DirectoryOrCreate").unwrap();
    check(&new.join("file"), "FileOrCreate").unwrap();
    assert_eq!(fs::metadata(new.join("file")).unwrap().permissions().mode() & 0o777, 0o644);
    fs::write(new.join("file"), "kept").unwrap();
    check(&new.join("file"), "FileOrCreate").unwrap();
    assert_eq!(fs::read(new.join("file")).unwrap(), b"kept");
    // The parent directory is not created.
    let error = check(&dir.path().join("x/file"), "FileOrCreate").unwrap_err().to_string();
    assert!(error.starts_with("create ") && error.contains("No such file"), "{error}");
}
