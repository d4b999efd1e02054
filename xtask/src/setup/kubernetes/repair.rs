//! A fault that the source tree has with its compiler.
//!
//! The vendored `modern-go/reflect2` 1.0.1 calls `reflect.mapiterinit` with two arguments. Since Go 1.18 it
//! has a third, the iterator: what happens to be in that register is written to, and programs that write JSON
//! crash after some minutes. reflect2 1.0.2 gives it an iterator, and so does this.

use std::path::Path;

use super::StepError;
use xtask_common::files;

/// A replacement in a file of the tree.
struct Edit {
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

const EDITS: [Edit; 3] = [
    Edit {
        file: "vendor/github.com/modern-go/reflect2/unsafe_link.go",
        from: "func mapiterinit(rtype unsafe.Pointer, m unsafe.Pointer) *hiter\n",
        to: "func mapiterinit(rtype unsafe.Pointer, m unsafe.Pointer, it *hiter)\n",
    },
    // As large as the runtime's (runtime/map.go, hiter), and with pointers at the same places.
    Edit {
        file: "vendor/github.com/modern-go/reflect2/unsafe_link.go",
        from: "\t// rest fields are ignored\n",
        to: "\tpointers    [6]unsafe.Pointer\n\tstartBucket uintptr\n\tbytes       [4]uint8\n\
             \tbuckets     [2]uintptr\n",
    },
    Edit {
        file: "vendor/github.com/modern-go/reflect2/unsafe_map.go",
        from: "\treturn &UnsafeMapIterator{\n\
               \t\thiter:      mapiterinit(type2.rtype, *(*unsafe.Pointer)(obj)),\n",
        to: "\tit := new(hiter)\n\
             \tmapiterinit(type2.rtype, *(*unsafe.Pointer)(obj), it)\n\
             \treturn &UnsafeMapIterator{\n\
             \t\thiter:      it,\n",
    },
];

/// Repairs a tree that has just been unpacked.
///
/// # Errors
/// When a file is not as it is known to be.
pub fn tree(tree: &Path) -> Result<(), StepError> {
    for edit in &EDITS {
        let path = tree.join(edit.file);
        let text = String::from_utf8_lossy(&files::read(&path)?).into_owned();
        if !text.contains(edit.from) {
            return Err(StepError::Unknown(path));
        }
        files::write(&path, text.replacen(edit.from, edit.to, 1))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_repaired_once() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("vendor/github.com/modern-go/reflect2");
        files::create_folder(&folder).unwrap();
        let all: String = EDITS.iter().map(|edit| edit.from).collect();
        for name in ["unsafe_link.go", "unsafe_map.go"] {
            files::write(&folder.join(name), &all).unwrap();
        }
        tree(temp.path()).unwrap();
        let text = |name: &str| String::from_utf8(files::read(&folder.join(name)).unwrap()).unwrap();
        assert!(text("unsafe_link.go").contains("it *hiter)\n\tpointers"));
        assert!(text("unsafe_map.go").contains("\tit := new(hiter)\n"));
        assert!(matches!(tree(temp.path()), Err(StepError::Unknown(_))), "it is not as it was");
    }
}
