//! Plugins that have credentials for images (KEP-2133, kubelet pkg/credentialprovider/plugin): programs that
//! get the image's name on their standard input and answer on their standard output.

mod config;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nodewarden_model::backoff::Backoff;
use nodewarden_tasks::blocking;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::docker_config::DockerConfig;
use super::{Credential, Keyring, url};
use config::Provider;
pub use config::ProvidersError;

/// How long a plugin may take.
const LIMIT: Duration = Duration::from_secs(60);
/// What a plugin may answer, in bytes.
const LARGEST: u64 = 1 << 20;

/// The plugins of this node. Cloning shares them and what they answered.
#[derive(Debug, Clone)]
pub struct Providers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    plugins: Vec<Plugin>,
}

#[derive(Debug)]
struct Plugin {
    provider: Provider,
    program: PathBuf,
    /// Answers by what they are for.
    cache: Mutex<BTreeMap<CacheKey, (Instant, DockerConfig)>>,
    /// One call at a time: others may find its answer in the cache.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum CacheKey {
    Image(String),
    Registry(String),
    Global,
}

/// Standard input of a plugin.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    kind: &'a str,
    api_version: &'a str,
    image: &'a str,
}

/// Standard output of a plugin.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    cache_key_type: String,
    cache_duration: Option<String>,
    #[serde(default)]
    auth: Option<BTreeMap<String, Auth>>,
}

#[derive(Deserialize)]
struct Auth {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

impl Providers {
    /// Reads the configuration and looks for its programs in `bin_dir`. Blocks.
    ///
    /// # Errors
    /// The file is no such configuration, or a program is not there.
    pub fn open(config: &Path, bin_dir: &Path) -> Result<Self, ProvidersError> {
        let plugin = |provider: Provider| {
            let program = bin_dir.join(&provider.name);
            match std::fs::metadata(&program) {
                Ok(found) if found.is_file() => Ok(Plugin {
                    provider,
                    program,
                    cache: Mutex::default(),
                    turn: tokio::sync::Mutex::default(),
                }),
                _ => Err(ProvidersError::NoProgram { program }),
            }
        };
        let plugins = config::read(config)?.into_iter().map(plugin).collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Inner { plugins })))
    }

    /// Adds what the plugins have for an image, given by its name with domain and without tag. A plugin that
    /// fails has nothing, and the log says so.
    pub async fn add_to(&self, keyring: &mut Keyring, repository: &str) {
        for plugin in &self.0.plugins {
            let is_meant =
                plugin.provider.match_images.iter().any(|address| url::matches(address, repository));
            if !is_meant {
                continue;
            }
            match plugin.ask(repository).await {
                Ok(config) => keyring.add(config),
                Err(problem) => warn!(plugin = plugin.provider.name, image = repository, "{problem}"),
            }
        }
    }
}

impl Plugin {
    fn cached(&self, image: &str) -> Option<DockerConfig> {
        let mut cache = self.cache.lock();
        let now = Instant::now();
        cache.retain(|_, (end, _)| now < *end);
        let registry = url::split(image).0.to_owned();
        let keys = [CacheKey::Image(image.to_owned()), CacheKey::Registry(registry), CacheKey::Global];
        keys.iter().find_map(|key| cache.get(key)).map(|(_, config)| config.clone())
    }

    async fn ask(&self, image: &str) -> Result<DockerConfig, String> {
        let _turn = self.turn.lock().await;
        if let Some(config) = self.cached(image) {
            return Ok(config);
        }
        let answer = self.run(image).await?;
        let (config, kept) = read_answer(&answer, &self.provider, image)?;
        if let Some((key, time)) = kept {
            self.cache.lock().insert(key, (Instant::now() + time, config.clone()));
        }
        Ok(config)
    }

    async fn run(&self, image: &str) -> Result<Vec<u8>, String> {
        let request =
            Request { kind: "CredentialProviderRequest", api_version: &self.provider.api_version, image };
        let request = serde_json::to_vec(&request).map_err(|error| error.to_string())?;
        let (provider, program) = (self.provider.clone(), self.program.clone());
        let ran = blocking::PLUGINS.run(move || execute(&provider, &program, &request)).await;
        // A panic in there is a bug of the agent, which the log has.
        ran.unwrap_or_else(|_| Err("a fault in the agent".to_owned()))
    }
}

/// Runs a plugin; kills it if it takes too long. Its output goes to memory without a bound by pipes, so that
/// it never waits for its reader. Blocks.
fn execute(provider: &Provider, program: &Path, request: &[u8]) -> Result<Vec<u8>, String> {
    let memory = |name: &str| {
        let made = memfd_create(name, MFdFlags::MFD_CLOEXEC);
        made.map(File::from).map_err(|error| format!("memory for its output: {error}"))
    };
    let (mut input, mut output, mut errors) = (memory("stdin")?, memory("stdout")?, memory("stderr")?);
    let fail = |error: io::Error| format!("its input and output: {error}");
    input.write_all(request).and_then(|()| input.rewind()).map_err(fail)?;
    let handle = |file: &File| file.try_clone().map(Stdio::from).map_err(fail);
    let mut command = Command::new(program);
    command.args(&provider.args).envs(provider.env.iter().map(|(name, value)| (name, value)));
    command.stdin(handle(&input)?).stdout(handle(&output)?).stderr(handle(&errors)?);
    let mut child = command.spawn().map_err(|error| format!("cannot be run: {error}"))?;
    let begun = Instant::now();
    let mut pause = Backoff::doubling(Duration::from_millis(1), Duration::from_millis(50));
    let status = loop {
        match child.try_wait().map_err(fail)? {
            Some(status) => break status,
            None if begun.elapsed() < LIMIT => std::thread::sleep(pause.advance()),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer within {} s", LIMIT.as_secs()));
            }
        }
    };
    let read = |file: &mut File| {
        let mut text = Vec::new();
        file.rewind().and_then(|()| file.take(LARGEST + 1).read_to_end(&mut text)).map_err(fail).map(|_| text)
    };
    if !status.success() {
        let text = read(&mut errors)?;
        let said: String = String::from_utf8_lossy(&text).trim().chars().take(500).collect();
        return Err(format!("{status}: {said}"));
    }
    let answer = read(&mut output)?;
    if answer.len() as u64 > LARGEST {
        return Err(format!("its answer is longer than {LARGEST} bytes"));
    }
    Ok(answer)
}

/// What a plugin answered, and for what and how long it may be used again.
fn read_answer(
    answer: &[u8],
    provider: &Provider,
    image: &str,
) -> Result<(DockerConfig, Option<(CacheKey, Duration)>), String> {
    // The text is in no message: it has passwords.
    let answer: Response = serde_json::from_slice(answer).map_err(|error| {
        format!("its answer is not a CredentialProviderResponse: column {}", error.column())
    })?;
    if answer.kind != "CredentialProviderResponse" {
        return Err(format!("its answer is of kind {:?}", answer.kind));
    }
    if answer.api_version != provider.api_version {
        return Err(format!(
            "its answer is of version {:?}, not {}",
            answer.api_version, provider.api_version
        ));
    }
    let key = match answer.cache_key_type.as_str() {
        "Image" => CacheKey::Image(image.to_owned()),
        "Registry" => CacheKey::Registry(url::split(image).0.to_owned()),
        "Global" => CacheKey::Global,
        other => return Err(format!("its cacheKeyType {other:?} is none of Image, Registry, Global")),
    };
    let time = match &answer.cache_duration {
        Some(text) => {
            config::duration(text).ok_or_else(|| format!("its cacheDuration {text:?} is no time"))?
        }
        None => provider.default_cache_duration,
    };
    let entries = answer.auth.unwrap_or_default().into_iter();
    let config =
        entries.map(|(address, Auth { username, password })| (address, Credential { username, password }));
    Ok((config.collect(), (!time.is_zero()).then_some((key, time))))
}

#[cfg(test)]
mod tests;
