//! Which images of the node a pod may use without pulling them, by the credentials with which they were
//! pulled before (KEP-2535; kubelet: pkg/kubelet/images/pullmanager). `pulled.json` in the state directory
//! keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nodewarden_config::{ImageVerification, VerificationPolicy};
use nodewarden_cri::image_reference::repository;
use nodewarden_pods::registry::Credential;
use nodewarden_storage::state_file::{Format, StateFile, StateFileError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const NAME: &str = "pulled.json";
const FORMAT: Format = Format::new("pulled", 1);

/// What a pod needs to use an image that is on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Required {
    /// Nothing.
    Nothing,
    /// One of these credentials, by [`digest`]; without any of them the image has to be pulled with the pod's
    /// own.
    OneOf(BTreeSet<String>),
}

impl Required {
    /// Whether one of these credentials of the pod is enough.
    pub fn is_met<'c>(&self, credentials: impl IntoIterator<Item = &'c Credential>) -> bool {
        match self {
            Self::Nothing => true,
            Self::OneOf(known) => credentials.into_iter().any(|own| known.contains(&digest(own))),
        }
    }
}

/// With what an image of one repository was pulled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Access {
    /// Without credentials, or with those of the node: every pod may use it.
    every_pod: bool,
    /// Digests of credentials of pods.
    credentials: BTreeSet<String>,
}

/// What was pulled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Pulled {
    /// By image id, then by repository.
    images: BTreeMap<String, BTreeMap<String, Access>>,
    /// Names of images whose pull has begun and whose end is not recorded: should the agent end in between,
    /// no credentials give access to the image.
    begun: BTreeSet<String>,
    /// The file was unreadable once: every image may have been pulled by this agent.
    forgotten: bool,
}

impl Pulled {
    /// What a pod needs to use this image. Pure.
    fn required(&self, settings: &ImageVerification, image: &str, id: &str) -> Required {
        let repository = repository(image);
        let record = self.images.get(id);
        let was_pulled = record.is_some() || self.begun.contains(image) || self.forgotten;
        if !settings.applies_to(&repository, was_pulled) {
            return Required::Nothing;
        }
        match record.and_then(|known| known.get(&repository)) {
            Some(access) if access.every_pod => Required::Nothing,
            Some(access) => Required::OneOf(access.credentials.clone()),
            None => Required::OneOf(BTreeSet::new()),
        }
    }
}

/// The records of all pulls. Methods that write block on the disk.
#[derive(Debug)]
pub struct Verifier {
    settings: ImageVerification,
    file: StateFile,
    pulled: Mutex<Pulled>,
    /// Pulls under way by the image's name.
    under_way: Mutex<BTreeMap<String, u32>>,
}

impl Verifier {
    /// Reads the records. If they cannot be read, which the error says, every image counts as pulled by this
    /// agent.
    pub fn open(state_dir: &Path, settings: ImageVerification) -> (Self, Option<StateFileError>) {
        let (file, pulled, problem) = StateFile::open::<Pulled>(state_dir.join(NAME), FORMAT);
        let mut pulled = pulled.unwrap_or_default();
        pulled.forgotten |= problem.is_some();
        let own = Self { settings, file, pulled: Mutex::new(pulled), under_way: Mutex::default() };
        (own, problem)
    }

    /// Whether credentials are verified at all. If not, nothing is recorded either.
    pub fn is_on(&self) -> bool {
        self.settings.policy != VerificationPolicy::NeverVerify
    }

    /// What a pod needs to use the image with this name and id.
    pub fn required(&self, image: &str, id: &str) -> Required {
        self.pulled.lock().required(&self.settings, image, id)
    }

    /// A pull begins.
    ///
    /// # Errors
    /// It cannot be recorded: the image must not be pulled.
    pub fn begin(&self, image: &str) -> Result<(), StateFileError> {
        *self.under_way.lock().entry(image.to_owned()).or_default() += 1;
        let begun = self.change(|pulled| {
            pulled.begun.insert(image.to_owned());
        });
        if begun.is_err() {
            self.ends(image);
        }
        begun
    }

    /// A pull has failed.
    ///
    /// # Errors
    /// It cannot be recorded: the image counts as one whose pull is not known.
    pub fn failed(&self, image: &str) -> Result<(), StateFileError> {
        if !self.ends(image) {
            return Ok(());
        }
        self.change(|pulled| {
            pulled.begun.remove(image);
        })
    }

    /// A pull was given up: the runtime may have the image all the same.
    pub fn given_up(&self, image: &str) {
        self.ends(image);
    }

    /// Forgets the pulls of images that are no longer on the node. No pull may be under way.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn keep(&self, on_node: &BTreeSet<String>) -> Result<(), StateFileError> {
        self.change(|pulled| pulled.images.retain(|id, _| on_node.contains(id)))
    }

    /// A pull has succeeded, with these credentials of a pod, or with none or those of the node.
    ///
    /// # Errors
    /// As [`Self::failed`].
    pub fn succeeded(&self, image: &str, id: &str, with: Option<&Credential>) -> Result<(), StateFileError> {
        let last = self.ends(image);
        self.change(|pulled| {
            let access =
                pulled.images.entry(id.to_owned()).or_default().entry(repository(image)).or_default();
            match with {
                None => access.every_pod = true,
                Some(credential) => {
                    access.credentials.insert(digest(credential));
                }
            }
            if last {
                pulled.begun.remove(image);
            }
        })
    }

    /// Counts the end of a pull; whether it was the last one of this name.
    fn ends(&self, image: &str) -> bool {
        let mut under_way = self.under_way.lock();
        let left = under_way.get(image).map_or(0, |pulls| pulls.saturating_sub(1));
        match left {
            0 => under_way.remove(image),
            left => under_way.insert(image.to_owned(), left),
        };
        left == 0
    }

    fn change(&self, change: impl FnOnce(&mut Pulled)) -> Result<(), StateFileError> {
        // Held while writing, so that the file never goes backwards.
        let mut pulled = self.pulled.lock();
        change(&mut pulled);
        self.file.save(&*pulled).map(drop)
    }
}

/// SHA-256 of a user and its password, in hexadecimal.
fn digest(credential: &Credential) -> String {
    let mut hash = Sha256::new();
    hash.update((credential.username.len() as u64).to_le_bytes());
    hash.update(&credential.username);
    hash.update(&credential.password);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
