//! Errors of a configuration; all problems are reported together.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// An invalid field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file with the field, if there are several files.
    pub file: Option<PathBuf>,
    /// Path of the field (`nodewarden.journal.files`) or the flag (`--socket`).
    pub field: String,
    /// Whether `field` is a flag, which is in no file.
    pub is_flag: bool,
    /// The value; empty if it is missing.
    pub value: String,
    /// Description of valid values.
    pub expected: String,
}

impl Problem {
    /// A problem of a field, of the only file if there are not several.
    pub fn new(field: &str, value: &str, expected: &str) -> Self {
        Self {
            file: None,
            field: field.to_owned(),
            is_flag: false,
            value: value.to_owned(),
            expected: expected.to_owned(),
        }
    }

    /// A problem of a flag.
    pub fn of_flag(flag: &str, value: &str, expected: &str) -> Self {
        Self { is_flag: true, ..Self::new(flag, value, expected) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if self.value.is_empty() {
            write!(f, "{}: missing: expected {}", self.field, self.expected)
        } else {
            write!(f, "{}: {}: expected {}", self.field, self.value, self.expected)
        }
    }
}

/// Why there is no configuration; the agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file that `--config` names cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The directory of the drop-in files (`--config-dir`) cannot be listed.
    #[error("cannot read the drop-in directory {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file that `--config` names is not YAML.
    #[error("{origin} is not YAML: {source}")]
    Yaml {
        /// Path of the file.
        origin: String,
        /// The parser's error with line and column.
        source: serde_yaml_ng::Error,
    },
    /// Aliases make the file that `--config` names too large.
    #[error("{origin}: aliases (*name) expand the file to more than {limit} bytes")]
    TooLarge {
        /// Path of the file.
        origin: String,
        /// Most bytes.
        limit: usize,
    },
    /// All problems of the file and the flags, one per line.
    #[error("{origin} is not valid:{}", list(problems))]
    Invalid {
        /// What was read: the file, the drop-in directory, both, or `the command line`.
        origin: String,
        /// One entry per invalid field.
        problems: Vec<Problem>,
    },
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|p| format!("\n  {p}")).collect()
}
