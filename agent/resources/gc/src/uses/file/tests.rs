//! The file: it is read as it was written, and every damage is reported.

use std::fs;

use jiff::{SignedDuration, Timestamp};
use nodewarden_model::{ImageSeen, Used};

use super::*;
use crate::users::Users;

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_millis(1_700_000_000_123 + 1000 * second)
}

fn uses() -> Uses {
    let image = |id: &str| ImageSeen { id: id.to_owned(), names: vec![], size: 1, pinned: false };
    let mut uses = Uses::default();
    let users = Users([("sha256:a".to_owned(), (Used::Container, vec![]))].into());
    uses.detect(&[image("sha256:a"), image("sha256:b")], &users, at(0));
    uses
}

#[test]
fn times_are_read_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let (file, none, problem) = UsesFile::open(dir.path());
    assert!(none.is_empty() && problem.is_none(), "{problem:?}");
    let mut uses = uses();
    assert!(file.save(&uses).unwrap());
    assert!(!file.save(&uses).unwrap());
    let (again, read, problem) = UsesFile::open(dir.path());
    assert!(problem.is_none(), "{problem:?}");
    assert_eq!(read.images, uses.images);
    // The same content is not written again after a restart either.
    assert!(!again.save(&uses).unwrap());
    uses.forget("sha256:a");
    assert!(again.save(&uses).unwrap());
    assert_eq!(UsesFile::open(dir.path()).1.images, uses.images);
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, [NAME]);
}

#[test]
fn the_file_has_this_format() {
    let dir = tempfile::tempdir().unwrap();
    UsesFile::open(dir.path()).0.save(&uses()).unwrap();
    let text = fs::read_to_string(dir.path().join("images.json")).unwrap();
    let content: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        content["images"],
        serde_json::json!({
            "sha256:a": {"firstDetected": "2023-11-14T22:13:20.123Z", "lastUsed": "2023-11-14T22:13:20.123Z"},
            "sha256:b": {"firstDetected": "2023-11-14T22:13:20.123Z", "lastUsed": null},
        })
    );
}

#[test]
fn a_damaged_file_is_renamed_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    UsesFile::open(dir.path()).0.save(&uses()).unwrap();
    let good = fs::read(&path).unwrap();
    let changed = |from: &str, to: &str| {
        let text = String::from_utf8(good.clone()).unwrap();
        assert!(text.contains(from), "{text}");
        text.replace(from, to).into_bytes()
    };
    for (bytes, fault) in [
        (Vec::new(), "EOF"),
        (good[..good.len() / 2].to_vec(), "EOF"),
        (b"\xff{}".to_vec(), "not UTF-8"),
        (b"[]".to_vec(), "invalid"),
        (changed("sha256:b", "sha256:c"), "the checksum is another"),
        (changed("\"version\":1", "\"version\":2"), "version 2, not 1"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let (file, read, problem) = UsesFile::open(dir.path());
        assert!(read.is_empty());
        let error = problem.unwrap().to_string();
        assert!(error.contains(fault) && error.contains("images.json.damaged"), "{fault}: {error}");
        assert_eq!(fs::read(dir.path().join("images.json.damaged")).unwrap(), bytes);
        assert!(!path.exists());
        // A new file is written.
        assert!(file.save(&uses()).unwrap());
        assert_eq!(UsesFile::open(dir.path()).1.images, uses().images);
    }
}

#[test]
fn a_temporary_file_of_a_killed_agent_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    UsesFile::open(dir.path()).0.save(&uses()).unwrap();
    let temporary = dir.path().join("images.json.new");
    fs::write(&temporary, "{").unwrap();
    let (file, read, problem) = UsesFile::open(dir.path());
    assert!(problem.is_none(), "{problem:?}");
    assert_eq!(read.len(), 2);
    file.save(&Uses::default()).unwrap();
    assert!(!temporary.exists());
}

#[test]
fn errors_of_writing_and_reading_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let (file, _, problem) = UsesFile::open(&missing);
    assert!(problem.is_none(), "{problem:?}");
    let error = file.save(&uses()).unwrap_err().to_string();
    assert!(error.starts_with("create ") && error.contains("missing/images.json.new"), "{error}");
    // It is written once that is possible.
    fs::create_dir(&missing).unwrap();
    assert!(file.save(&uses()).unwrap());
    fs::remove_file(missing.join(NAME)).unwrap();
    fs::create_dir(missing.join(NAME)).unwrap();
    let (_, read, problem) = UsesFile::open(&missing);
    let error = problem.unwrap().to_string();
    assert!(
        read.is_empty() && error.starts_with("read ") && error.contains("missing/images.json"),
        "{error}"
    );
}
