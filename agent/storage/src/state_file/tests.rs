//! Writing, reading and damage of one state file.

use super::*;

const FORMAT: Format = Format::new("things", 1);

fn open(path: &Path) -> (StateFile, Option<Vec<u32>>, Option<StateFileError>) {
    StateFile::open(path.to_owned(), FORMAT)
}

#[test]
fn content_is_read_back_and_equal_content_is_not_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("things.json");
    let (file, none, problem) = open(&path);
    assert!(none.is_none() && problem.is_none(), "{problem:?}");
    assert!(file.save(&[1, 2]).unwrap());
    assert!(!file.save(&[1, 2]).unwrap());
    let (again, read, problem) = open(&path);
    assert!(problem.is_none(), "{problem:?}");
    assert_eq!(read, Some(vec![1, 2]));
    assert!(!again.save(&[1, 2]).unwrap());
    assert!(again.save(&[3]).unwrap());
    assert_eq!(open(&path).1, Some(vec![3]));
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["things.json"]);
}

#[test]
fn a_failed_write_leaves_the_file_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("things.json");
    let (file, ..) = open(&path);
    assert!(file.save(&[1]).unwrap());
    // No file can be made where a directory is.
    fs::create_dir(dir.path().join("things.json.new")).unwrap();
    let error = file.save(&[2]).unwrap_err().to_string();
    assert!(error.starts_with("create ") && error.contains("things.json.new"), "{error}");
    assert_eq!(open(&path).1, Some(vec![1]));
    // The content on disk is still known.
    assert!(!file.save(&[1]).unwrap());
}

#[test]
fn content_of_something_else_is_refused_and_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("things.json");
    open(&path).0.save(&[7]).unwrap();
    let refuse = |_: &Vec<u32>| Err(Fault::Misplaced("others".into()));
    let error = FORMAT.read(&path, refuse).unwrap_err().to_string();
    assert!(error.contains("(it is of others)") && error.ends_with("things.json.damaged"), "{error}");
    assert!(!path.exists());
    // An undamaged file without the field.
    Format::new("else", 1).write(&path, &1, None, || {}).unwrap();
    let error = open(&path).2.unwrap().to_string();
    assert!(error.contains("missing field `things`"), "{error}");
}

/// What earlier versions of the agent wrote, byte by byte.
#[test]
fn the_text_of_a_file_does_not_change() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("things.json");
    let content = std::collections::BTreeMap::from([("b", 1), ("a \"quoted\"", 2)]);
    let written = FORMAT.write(&path, &content, None, || {}).unwrap().unwrap();
    let checksum = "927b49150c897bbc8e9ac1a981d73b593f805215a4f1521970c331ebfb8ca44c";
    assert_eq!(written, checksum);
    let text = format!(r#"{{"version":1,"checksum":"{checksum}","things":{{"a \"quoted\"":2,"b":1}}}}"#);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    // With its own checksum, and not synced.
    let own = FORMAT.unsynced().with_checksum(|_, hash| hash.update("abc"));
    own.write(&path, &[1], None, || {}).unwrap();
    let checksum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let text = format!(r#"{{"version":1,"things":[1],"checksum":"{checksum}"}}"#);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(own.read(&path, |_| Ok(())).unwrap(), Some((vec![1], checksum.to_owned())));
    fs::remove_file(&path).unwrap();
    own.write_fed(&path, &[1], |hash| hash.update("abc")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}
