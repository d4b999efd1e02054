//! The files `cpu_manager_state` and `memory_manager_state`, in the kubelet's directory and format: an agent
//! takes over what a kubelet has written, and a kubelet what an agent has.

use std::path::Path;

use nodewarden_cpus as cpus;
use nodewarden_memory_blocks as memory;
use nodewarden_storage::checkpoint::{CheckpointFileError, CheckpointPath};

use crate::node::Saved;

/// The kubelet's names (`cpuManagerStateFileName`, `memoryManagerStateFileName`).
const CPUS: &str = "cpu_manager_state";
const MEMORY: &str = "memory_manager_state";

/// Both files.
#[derive(Debug)]
pub(crate) struct StateFiles {
    cpus: CheckpointPath,
    memory: CheckpointPath,
}

impl StateFiles {
    /// In the kubelet's directory.
    pub fn new(directory: &Path) -> Self {
        Self { cpus: CheckpointPath::new(directory, CPUS), memory: CheckpointPath::new(directory, MEMORY) }
    }

    /// What was saved last. A damaged file is set aside; the problems are returned as text for people.
    pub fn load(&self) -> (Saved, Vec<String>) {
        let mut problems = Vec::new();
        let saved = Saved {
            // Kubelets that wrote container ids (before 1.18) are not taken over.
            cpus: one(&self.cpus, |text| cpus::StateFile::read(text, |_| None), &mut problems),
            memory: one(&self.memory, memory::StateFile::read, &mut problems),
        };
        (saved, problems)
    }

    /// Writes both files.
    ///
    /// # Errors
    /// A file cannot be written; the previous one stays.
    pub fn save(
        &self,
        cpus: &cpus::StateFile,
        memory: &memory::StateFile,
        pod_level: bool,
    ) -> Result<(), CheckpointFileError> {
        self.cpus.replace(cpus.write(pod_level).as_bytes())?;
        self.memory.replace(memory.write(pod_level).as_bytes())
    }

    /// Whether a file of the CPU manager is there, or was damaged.
    #[cfg(test)]
    pub fn cpus(&self) -> &Path {
        self.cpus.path()
    }
}

/// The content of one file; `None` if there is none or it is damaged.
fn one<T, E: std::fmt::Display>(
    file: &CheckpointPath,
    parse: impl Fn(&str) -> Result<T, E>,
    problems: &mut Vec<String>,
) -> Option<T> {
    let path = file.path().display();
    let bytes = match file.read() {
        Ok(bytes) => bytes?,
        Err(error) => {
            problems.push(error.to_string());
            return None;
        }
    };
    let problem = match std::str::from_utf8(&bytes) {
        Ok(text) => match parse(text) {
            Ok(content) => return Some(content),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    problems.push(match file.set_aside() {
        Ok(kept) => format!("{path} is damaged: {problem}; kept as {}", kept.display()),
        Err(error) => format!("{path} is damaged: {problem}; {error}"),
    });
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn damaged_files_are_set_aside_and_reported() {
        let dir = tempfile::tempdir().unwrap();
        let files = StateFiles::new(dir.path());
        let (saved, problems) = files.load();
        assert!(saved.cpus.is_none() && saved.memory.is_none() && problems.is_empty());
        fs::write(files.cpus(), "{\"policyName\":\"static\",\"checksum\":1}").unwrap();
        fs::write(dir.path().join(MEMORY), "{").unwrap();
        let (saved, problems) = files.load();
        assert!(saved.cpus.is_none() && saved.memory.is_none());
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("the checksum is 1"), "{problems:?}");
        assert!(!files.cpus().exists() && dir.path().join("cpu_manager_state.damaged").exists());
    }

    #[test]
    fn what_is_saved_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let files = StateFiles::new(dir.path());
        let mut cpus = cpus::StateFile { policy: "static".to_owned(), ..Default::default() };
        cpus.assignments
            .containers
            .entry("p".to_owned())
            .or_default()
            .insert("c".to_owned(), nodewarden_machine::cpu_set::CpuSet::parse("1-2").unwrap());
        let memory = memory::StateFile { policy: "None".to_owned(), ..Default::default() };
        files.save(&cpus, &memory, false).unwrap();
        let (saved, problems) = files.load();
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!((saved.cpus, saved.memory), (Some(cpus), Some(memory)));
    }
}
