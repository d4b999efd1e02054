//! What the binary itself writes: completions of shells, manual pages, the schema of its configuration.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

/// The binary did not write what it should.
#[derive(Debug, Error)]
pub enum GenerateError {
    /// It could not be started.
    #[error("cannot run {}", program.display())]
    Start {
        /// The binary.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It failed.
    #[error("{} {arguments} failed: {message}", program.display())]
    Failed {
        /// The binary.
        program: PathBuf,
        /// Its arguments.
        arguments: String,
        /// What it printed.
        message: String,
    },
    /// A manual page could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A shell whose completions are shipped: its name, and where Debian's and where other packages keep them.
const SHELLS: [(&str, &str, &str); 3] = [
    (
        "bash",
        "usr/share/bash-completion/completions/nodewarden",
        "usr/share/bash-completion/completions/nodewarden",
    ),
    ("zsh", "usr/share/zsh/vendor-completions/_nodewarden", "usr/share/zsh/site-functions/_nodewarden"),
    (
        "fish",
        "usr/share/fish/vendor_completions.d/nodewarden.fish",
        "usr/share/fish/vendor_completions.d/nodewarden.fish",
    ),
];

/// Texts that the binary wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Generated {
    /// For each shell: its name, where Debian and where other packages keep its completions, and the text.
    pub completions: Vec<Completion>,
    /// Manual pages by their name, such as `nodewarden-top.1`.
    pub pages: Vec<(String, Vec<u8>)>,
    /// The JSON schema of the configuration.
    pub schema: Vec<u8>,
}

/// The completions of one shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The shell.
    pub shell: &'static str,
    /// Its place in Debian's packages.
    pub debian: &'static str,
    /// Its place elsewhere.
    pub elsewhere: &'static str,
    /// The script.
    pub text: Vec<u8>,
}

impl Generated {
    /// Has `binary` write all of it; `scratch` is an empty folder for that.
    ///
    /// # Errors
    /// When the binary does not run here, or fails.
    pub fn by(binary: &Path, scratch: &Path) -> Result<Self, GenerateError> {
        let mut completions = Vec::new();
        for (shell, debian, elsewhere) in SHELLS {
            let text = run(binary, &["completions", shell])?;
            completions.push(Completion { shell, debian, elsewhere, text });
        }
        run(binary, &["manual", &scratch.display().to_string()])?;
        let schema = run(binary, &["config", "schema"])?;
        Ok(Self { completions, pages: files(scratch)?, schema })
    }
}

/// What `binary` prints on its standard output.
fn run(binary: &Path, arguments: &[&str]) -> Result<Vec<u8>, GenerateError> {
    let output = Command::new(binary).args(arguments).output();
    let output = output.map_err(|source| GenerateError::Start { program: binary.to_owned(), source })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(GenerateError::Failed { program: binary.to_owned(), arguments: arguments.join(" "), message })
}

/// The files in `folder`, by name.
fn files(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, GenerateError> {
    let error = |path: &Path| {
        let path = path.to_owned();
        move |source| GenerateError::Read { path, source }
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(error(folder))? {
        let path = entry.map_err(error(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.push((name, std::fs::read(&path).map_err(error(&path))?));
    }
    found.sort();
    Ok(found)
}
