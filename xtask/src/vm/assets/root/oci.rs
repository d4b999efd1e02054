//! Container images of one layer in an archive that `ctr images import` reads: the OCI image layout
//! (github.com/opencontainers/image-spec, image-layout.md) in a tar file.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// What an image has and runs.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    /// Its full name, such as `nodewarden.test/pause:1`.
    pub name: &'a str,
    /// Its files: path without a leading slash, permission bits, content.
    pub files: &'a [(&'a str, u32, &'a [u8])],
    /// Its symbolic links: path and target.
    pub links: &'a [(&'a str, &'a str)],
    /// What runs when nothing else is asked for.
    pub command: &'a [&'a str],
}

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// An archive of `images`; the same images always give the same bytes.
///
/// # Errors
/// When a path is too long for a tar file.
pub fn archive(images: &[Image<'_>]) -> io::Result<Vec<u8>> {
    // By digest: images may have blobs in common.
    let mut blobs = BTreeMap::new();
    let mut listed = Vec::new();
    for image in images {
        let layer = image.layer()?;
        let config = image.config(&layer).to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, &config),
            "layers": [descriptor(LAYER, &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let mut descriptor = descriptor(MANIFEST, &manifest);
        let tag = image.name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        // containerd takes the full name from the first; the second is the format's own.
        descriptor["annotations"] =
            json!({ "io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": tag });
        listed.push(descriptor);
        blobs.extend([layer, config, manifest].map(|blob| (hash(&blob), blob)));
    }
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": listed });
    let mut tar = Builder::new(Vec::new());
    append(&mut tar, "oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    append(&mut tar, "index.json", 0o644, index.to_string().as_bytes())?;
    for (hash, blob) in blobs {
        append(&mut tar, &format!("blobs/sha256/{hash}"), 0o644, &blob)?;
    }
    tar.into_inner()
}

impl Image<'_> {
    fn config(&self, layer: &[u8]) -> Value {
        json!({
            "architecture": "amd64",
            "os": "linux",
            "config": { "Env": ["PATH=/bin"], "Cmd": self.command },
            "rootfs": { "type": "layers", "diff_ids": [digest(layer)] },
        })
    }

    fn layer(&self) -> io::Result<Vec<u8>> {
        let mut tar = Builder::new(Vec::new());
        for folder in ["bin/", "dev/", "etc/", "proc/", "sys/", "tmp/"] {
            let mut header = header(0o755, 0, EntryType::Directory);
            tar.append_data(&mut header, folder, io::empty())?;
        }
        for (path, mode, data) in self.files {
            append(&mut tar, path, *mode, data)?;
        }
        for (path, target) in self.links {
            tar.append_link(&mut header(0o777, 0, EntryType::Symlink), path, target)?;
        }
        tar.into_inner()
    }
}

fn header(mode: u32, size: u64, kind: EntryType) -> Header {
    let mut header = Header::new_ustar();
    header.set_mode(mode);
    header.set_size(size);
    header.set_entry_type(kind);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn append(tar: &mut Builder<Vec<u8>>, path: &str, mode: u32, data: &[u8]) -> io::Result<()> {
    tar.append_data(&mut header(mode, data.len() as u64, EntryType::Regular), path, data)
}

fn descriptor(kind: &str, data: &[u8]) -> Value {
    json!({ "mediaType": kind, "digest": digest(data), "size": data.len() })
}

/// `sha256:` and the hash in hexadecimal.
fn digest(data: &[u8]) -> String {
    format!("sha256:{}", hash(data))
}

/// The SHA-256 in hexadecimal.
pub fn hash(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().unwrap().map(Result::unwrap);
        let file = |mut entry: tar::Entry<'_, &[u8]>| {
            let mut data = Vec::new();
            entry.read_to_end(&mut data).unwrap();
            (entry.path().unwrap().to_string_lossy().into_owned(), data)
        };
        entries.map(file).collect()
    }

    #[test]
    fn every_descriptor_leads_to_its_blob() {
        let image = Image {
            name: "nodewarden.test/thing:1",
            files: &[("bin/busybox", 0o755, b"program")],
            links: &[("bin/sh", "busybox")],
            command: &["/bin/sh"],
        };
        let other = Image { name: "nodewarden.test/other:2", command: &["/bin/busybox"], ..image };
        let images = [image, other];
        let archive = archive(&images).unwrap();
        assert_eq!(archive, super::archive(&images).unwrap());
        let files = files(&archive);
        let follow = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            let data = &files[&digest.replace("sha256:", "blobs/sha256/")];
            assert_eq!(hash(data), digest["sha256:".len()..]);
            assert_eq!(descriptor["size"], data.len());
            data.clone()
        };
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let listed = &index["manifests"][0];
        assert_eq!(
            index["manifests"][1]["annotations"]["io.containerd.image.name"],
            "nodewarden.test/other:2"
        );
        assert_eq!(files.len(), 7, "one layer, which both have in common: {:?}", files.keys());
        assert_eq!(listed["annotations"]["io.containerd.image.name"], "nodewarden.test/thing:1");
        let manifest: Value = serde_json::from_slice(&follow(listed)).unwrap();
        let layer = follow(&manifest["layers"][0]);
        let config: Value = serde_json::from_slice(&follow(&manifest["config"])).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        assert_eq!(config["config"]["Cmd"][0], "/bin/sh");
        assert_eq!(self::files(&layer)["bin/busybox"], b"program");
    }

    #[test]
    fn the_hash_is_sha_256() {
        assert_eq!(hash(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
