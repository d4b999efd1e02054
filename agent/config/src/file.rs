//! From the text of the file, of the drop-in files and the flags to a [`Config`].

use std::fs;
use std::path::Path;

use serde_yaml_ng::{Mapping, Value};

use nodewarden_manifest::manifest::{LARGEST_EXPANDED, aliases_fit};

use super::endpoint::Endpoint;
use super::fields::{Fields, shown};
use super::keys::{self, SECTION};
use super::merge::Layers;
use super::reading::Reading;
use super::{Config, ConfigError, Overrides, Problem, dropin, eviction, kubelet_keys, renamed, section};

/// A valid configuration, and what was read to make it.
#[derive(Debug)]
pub struct Checked {
    /// The configuration.
    pub config: Config,
    /// Paths of the keys with a value in the files or by a flag that have an effect, in the order in which
    /// they are read.
    pub effective: Vec<String>,
}

/// Reads the file, if one is given, lays the files of the drop-in directory over it, and then the flags.
///
/// # Errors
/// The file or the directory cannot be read, the file is not YAML, or something in the files or the flags is
/// not valid: then every problem at once.
pub fn load(file: Option<&Path>, directory: Option<&Path>, flags: &Overrides) -> Result<Config, ConfigError> {
    check(file, directory, flags).map(|checked| checked.config)
}

/// As [`load`], with the keys that have an effect.
///
/// # Errors
/// As [`load`].
pub fn check(
    file: Option<&Path>,
    directory: Option<&Path>,
    flags: &Overrides,
) -> Result<Checked, ConfigError> {
    let mut problems = Vec::new();
    let mut origin = "the command line".to_owned();
    let mut layers = Layers::new(None, Mapping::new());
    if let Some(path) = file {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        origin = path.display().to_string();
        layers = Layers::new(Some(path), content(yaml(&origin, &text)?, &mut problems));
    }
    let Some(directory) = directory else {
        return build(&origin, layers, problems, flags);
    };
    eviction::fill_in_defaults(layers.map_mut());
    name_files(&mut problems, &layers);
    for path in dropin::files(directory)? {
        let mut found = Vec::new();
        let read = fs::read_to_string(&path).map_err(|e| e.to_string());
        match read.and_then(|text| yaml("", &text).map_err(cause)) {
            Ok(value) => layers.lay(&path, content(value, &mut found)),
            Err(cause) => found.push(Problem::new("file", &cause, "YAML that can be read")),
        }
        problems.extend(found.into_iter().map(|p| Problem { file: Some(path.clone()), ..p }));
    }
    let origin = match file {
        Some(_) => format!("{origin} with {}", directory.display()),
        None => directory.display().to_string(),
    };
    let known = layers.clone();
    build(&origin, layers, problems, flags).map_err(|mut error| {
        if let ConfigError::Invalid { problems, .. } = &mut error {
            name_files(problems, &known);
        }
        error
    })
}

/// A configuration from the text of one file; `origin` is what errors call it.
///
/// # Errors
/// As [`load`].
pub fn parse(origin: &str, text: &str, flags: &Overrides) -> Result<Config, ConfigError> {
    let mut problems = Vec::new();
    let map = content(yaml(origin, text)?, &mut problems);
    build(origin, Layers::new(None, map), problems, flags).map(|checked| checked.config)
}

/// The file's value. Refused before any of it is made if aliases expand it to too much.
fn yaml(origin: &str, text: &str) -> Result<Value, ConfigError> {
    if !aliases_fit(text) {
        return Err(ConfigError::TooLarge { origin: origin.to_owned(), limit: LARGEST_EXPANDED });
    }
    serde_yaml_ng::from_str(text).map_err(|source| ConfigError::Yaml { origin: origin.to_owned(), source })
}

/// What is wrong with a drop-in file, which the problem names itself.
fn cause(error: ConfigError) -> String {
    match error {
        ConfigError::Yaml { source, .. } => source.to_string(),
        ConfigError::TooLarge { limit, .. } => {
            format!("aliases (*name) expand the file to more than {limit} bytes")
        }
        other => other.to_string(),
    }
}

/// Sets the file of each problem that has none yet; problems of flags have no file.
fn name_files(problems: &mut [Problem], layers: &Layers) {
    for problem in problems {
        if problem.file.is_none() && !problem.is_flag {
            problem.file = layers.file_of(&problem.field).map(Path::to_owned);
        }
    }
}

/// The keys of one file, which must have the kubelet's `apiVersion` and `kind`.
fn content(value: Value, problems: &mut Vec<Problem>) -> Mapping {
    let mut map = match value {
        Value::Mapping(map) => map,
        Value::Null => Mapping::new(),
        other => {
            let expected = format!("a mapping of kind {}", keys::KIND);
            problems.push(Problem::new("file", &shown(&other), &expected));
            return Mapping::new();
        }
    };
    for (key, expected) in [("apiVersion", keys::API_VERSION), ("kind", keys::KIND)] {
        match map.shift_remove(key) {
            Some(v) if v.as_str() == Some(expected) => {}
            Some(v) => problems.push(Problem::new(key, &shown(&v), expected)),
            None => problems.push(Problem::new(key, "", expected)),
        }
    }
    map
}

/// Everything in the merged files, with the flags over it.
fn build(
    origin: &str,
    layers: Layers,
    problems: Vec<Problem>,
    flags: &Overrides,
) -> Result<Checked, ConfigError> {
    let mut reading = Reading { problems, ..Reading::default() };
    let config = read(layers.into_map(), &mut reading, flags);
    if reading.problems.is_empty() {
        Ok(Checked { config, effective: reading.effective() })
    } else {
        Err(ConfigError::Invalid { origin: origin.to_owned(), problems: reading.problems })
    }
}

/// Reads every key. With problems in `reading` the result has defaults in their place.
pub fn read(mut map: Mapping, reading: &mut Reading, flags: &Overrides) -> Config {
    flags.kubelet.lay_over(&mut map, &mut reading.problems);
    let mut top = Fields::new("", map, Vec::new(), reading);
    let mut section = top.section(SECTION);
    let kubelet_endpoint = Endpoint::take(&mut top, keys::RUNTIME_ENDPOINT);
    let taken = kubelet_keys::take(&mut top);
    top.finish();
    let renamed = renamed::replace(&mut section, &mut reading.problems);
    let mut config = section::take(section, taken, flags, reading);
    config.runtime_endpoint = config.runtime_endpoint.or(kubelet_endpoint);
    config.flags_without_effect = flags.kubelet.without_effect();
    config.ignored = std::mem::take(&mut reading.without_effect);
    config.renamed = renamed;
    flags.kubelet.name(&mut reading.problems);
    config
}
