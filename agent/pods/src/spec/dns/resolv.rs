//! Parses resolv.conf(5) like the kubelet (`parseResolvConf`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A resolver configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolv {
    /// The addresses of all `nameserver` lines, in the order of the file.
    pub nameservers: Vec<String>,
    /// The domains of the last `search` line, without a dot at the end.
    pub searches: Vec<String>,
    /// The options of all `options` lines, each once (`ndots:5`).
    pub options: Vec<String>,
}

/// Why the node's resolver configuration is not known.
#[derive(Debug, thiserror::Error)]
pub enum ResolvError {
    /// The file that `resolvConf` names cannot be read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A `nameserver` line has no address.
    #[error("{}, line {line}: nameserver without an address", path.display())]
    NoAddress {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
}

impl Resolv {
    /// Reads and parses the file that `resolvConf` names.
    ///
    /// # Errors
    /// The file cannot be read, or a `nameserver` line has no address.
    pub fn read(path: &Path) -> Result<Self, ResolvError> {
        let text =
            fs::read_to_string(path).map_err(|source| ResolvError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|line| ResolvError::NoAddress { path: path.to_owned(), line })
    }

    /// Parses a file's content: the last `search` line is used, and the options of all lines. The error is a
    /// line number.
    pub(super) fn parse(text: &str) -> Result<Self, usize> {
        let mut resolv = Self::default();
        for (index, line) in text.lines().enumerate() {
            let mut fields = line.split_whitespace();
            match fields.next() {
                Some("nameserver") => {
                    resolv.nameservers.push(fields.next().ok_or(index + 1)?.to_owned());
                }
                Some("search") => {
                    let domain = |text: &str| match text {
                        "." => text.to_owned(),
                        _ => text.strip_suffix('.').unwrap_or(text).to_owned(),
                    };
                    resolv.searches = fields.map(domain).collect();
                }
                Some("options") => {
                    let more = fields.map(str::to_owned);
                    resolv.options = merged(resolv.options.into_iter().chain(more));
                }
                _ => {}
            }
        }
        Ok(resolv)
    }
}

/// Keeps each option once: of two with the same name (`ndots:2`, `ndots:5`) the later one.
pub(super) fn merged(options: impl Iterator<Item = String>) -> Vec<String> {
    let name = |option: &str| option.split(':').next().unwrap_or_default().to_owned();
    let mut all: Vec<String> = Vec::new();
    for option in options {
        match all.iter_mut().find(|known| name(known) == name(&option)) {
            Some(known) => *known = option,
            None => all.push(option),
        }
    }
    all
}
