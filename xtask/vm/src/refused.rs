//! An agent whose kernel programs the verifier refuses: the harness must notice.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSymbol};
use thiserror::Error;

/// `r0 = *(u64 *)(r10 + 8)`: reads above the stack, which no program may (opcode BPF_LDX | BPF_MEM | BPF_DW,
/// registers, offset, immediate: Documentation/bpf/standardization/instruction-set.rst).
const OUT_OF_BOUNDS: [u8; 8] = [0x79, 0xa0, 8, 0, 0, 0, 0, 0];

/// It can't be made.
#[derive(Debug, Error)]
pub enum RefusedError {
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel programs are no ELF file.
    #[error("{}: {source}", path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// Why.
        source: object::Error,
    },
    /// There is no such program.
    #[error("{} has no program {program}", path.display())]
    NoProgram {
        /// The kernel programs.
        path: PathBuf,
        /// The one looked for.
        program: String,
    },
    /// The agent carries other kernel programs, or none.
    #[error("{} does not carry {}", agent.display(), object.display())]
    NotCarried {
        /// The agent.
        agent: PathBuf,
        /// The kernel programs.
        object: PathBuf,
    },
}

/// Copies `agent` to `copy` with the first instruction of the kernel program `program` replaced. `object` is
/// the file of kernel programs that the agent carries.
///
/// # Errors
/// When they do not belong together or a file operation fails.
pub fn copy_with_refused(
    agent: &Path,
    object: &Path,
    program: &str,
    copy: &Path,
) -> Result<(), RefusedError> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |source| RefusedError::File { path, source }
    };
    let mut bytes = fs::read(agent).map_err(file(agent))?;
    let carried = fs::read(object).map_err(file(object))?;
    let inside = first_instruction(&carried, program)
        .map_err(|source| RefusedError::Object { path: object.to_owned(), source })?
        .ok_or_else(|| RefusedError::NoProgram { path: object.to_owned(), program: program.to_owned() })?;
    let at = find(&bytes, &carried)
        .ok_or_else(|| RefusedError::NotCarried { agent: agent.to_owned(), object: object.to_owned() })?;
    bytes[at + inside..][..OUT_OF_BOUNDS.len()].copy_from_slice(&OUT_OF_BOUNDS);
    fs::write(copy, bytes).map_err(file(copy))?;
    fs::set_permissions(copy, fs::Permissions::from_mode(0o755)).map_err(file(copy))
}

/// Where in an object file the code of a program begins.
fn first_instruction(object: &[u8], program: &str) -> Result<Option<usize>, object::Error> {
    let file = object::File::parse(object)?;
    let Some(symbol) = file.symbols().find(|symbol| symbol.is_definition() && symbol.name() == Ok(program))
    else {
        return Ok(None);
    };
    let Some(section) = symbol.section_index() else { return Ok(None) };
    let section = file.section_by_index(section)?;
    let Some((start, size)) = section.file_range() else { return Ok(None) };
    let inside = symbol.address() - section.address();
    Ok((inside + OUT_OF_BOUNDS.len() as u64 <= size).then_some((start + inside) as usize))
}

/// Where `needle` begins. (Its first byte first: the agent has tens of megabytes.)
fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window.first() == needle.first() && window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_in_bytes() {
        assert_eq!(find(b"aabab", b"ab"), Some(1));
        assert_eq!(find(b"aaba", b"bb"), None);
        assert_eq!(find(b"a", b"ab"), None);
    }

    #[test]
    fn what_does_not_belong_together_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::write(at("agent"), "agent").unwrap();
        let this = std::env::current_exe().unwrap();
        let make = |object: &Path, program| copy_with_refused(&at("agent"), object, program, &at("copy"));
        assert!(matches!(make(&at("agent"), "main"), Err(RefusedError::Object { .. })));
        assert!(matches!(make(&this, "no_such_program"), Err(RefusedError::NoProgram { .. })));
        assert!(matches!(make(&this, "main"), Err(RefusedError::NotCarried { .. })));
        assert!(matches!(make(&at("gone"), "main"), Err(RefusedError::File { .. })));
    }

    #[test]
    fn the_copy_differs_in_one_instruction() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let this = std::env::current_exe().unwrap();
        let own = fs::read(&this).unwrap();
        let agent = [&b"before"[..], &own, b"behind"].concat();
        fs::write(at("agent"), &agent).unwrap();
        copy_with_refused(&at("agent"), &this, "main", &at("copy")).unwrap();
        let copy = fs::read(at("copy")).unwrap();
        let begin = 6 + first_instruction(&own, "main").unwrap().unwrap();
        assert_eq!(copy[begin..begin + 8], OUT_OF_BOUNDS);
        assert!(copy[..begin] == agent[..begin] && copy[begin + 8..] == agent[begin + 8..]);
    }
}
