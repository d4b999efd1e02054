//! Certificates with their keys in `--cert-dir`, as a kubelet keeps them (k8s.io/client-go/util/certificate
//! FileStore): each in a file of its own, and a link `<name>-current.pem` to the newest. All of it is
//! blocking.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nodewarden_storage::private_file;

use super::certificate::Pair;

/// The certificates of one purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    directory: PathBuf,
    name: &'static str,
}

impl Store {
    /// Those of the client: `kubelet-client-current.pem`.
    pub fn client(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), name: "kubelet-client" }
    }

    /// Those of the node's server: `kubelet-server-current.pem`.
    pub fn server(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), name: "kubelet-server" }
    }

    /// The link to the newest.
    pub fn current(&self) -> PathBuf {
        self.directory.join(format!("{}-current.pem", self.name))
    }

    /// The newest pair; `None` if there is none that can be read.
    pub fn read(&self) -> Option<Pair> {
        let text = fs::read(self.current()).ok()?;
        Pair::read(&text, &text)
    }

    /// Adds a pair and makes it the newest.
    ///
    /// # Errors
    /// As of the file system.
    pub fn add(&self, certificates: &str, key: &str, now: Timestamp) -> io::Result<()> {
        self.create_directory()?;
        let stamp = now.strftime("%Y-%m-%d-%H-%M-%S");
        let file = format!("{}-{stamp}.pem", self.name);
        let text = format!("{}\n{}\n", certificates.trim_end(), key.trim_end());
        private_file::write(&self.directory.join(&file), text.as_bytes())?;
        let link = self.directory.join(format!("{}-current.pem.new", self.name));
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(&file, &link)?;
        fs::rename(&link, self.current())
    }

    /// The key of a request that has not been answered yet; a restarted agent goes on with it.
    pub fn pending_key(&self) -> Option<String> {
        fs::read_to_string(self.pending()).ok()
    }

    /// Keeps the key of a request.
    ///
    /// # Errors
    /// As of the file system.
    pub fn keep_pending(&self, key: &str) -> io::Result<()> {
        self.create_directory()?;
        private_file::write(&self.pending(), key.as_bytes())
    }

    /// Forgets the key of a request, which was answered or refused.
    pub fn forget_pending(&self) {
        // What is left over would be taken for the next request, which does no harm.
        let _ = fs::remove_file(self.pending());
    }

    fn pending(&self) -> PathBuf {
        self.directory.join(format!("{}.key.tmp", self.name))
    }

    fn create_directory(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o755).create(&self.directory)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_newest_pair_is_current() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::client(&dir.path().join("pki"));
        assert!(store.read().is_none());
        let mut last = None;
        for second in [1, 2] {
            let key = rcgen::KeyPair::generate().unwrap();
            let params = rcgen::CertificateParams::new(vec!["n".to_owned()]).unwrap();
            let certificate = params.self_signed(&key).unwrap();
            let now = Timestamp::from_second(second).unwrap();
            store.add(&certificate.pem(), &key.serialize_pem(), now).unwrap();
            last = Some(certificate.der().clone());
        }
        assert_eq!(store.read().unwrap().chain, [last.unwrap()]);
        let target = fs::read_link(store.current()).unwrap();
        assert_eq!(target, Path::new("kubelet-client-1970-01-01-00-00-02.pem"));
        let mode = fs::metadata(store.current()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn the_key_of_a_request_outlives_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::server(dir.path());
        assert_eq!(store.pending_key(), None);
        store.keep_pending("key").unwrap();
        assert_eq!(store.pending_key().as_deref(), Some("key"));
        store.forget_pending();
        store.forget_pending();
        assert_eq!(store.pending_key(), None);
    }
}
