//! An OCI image as one archive, made without a container runtime: a layer with the C library, a layer with
//! the binary.

use serde_json::{Value, json};

use crate::archive::{self, Effort, sha256};
use crate::tree::Tree;
use crate::{DistError, Release};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// Where the binary is in the image.
pub const PROGRAM: &str = "/usr/bin/nodewarden";
const ARCHITECTURE: &str = "amd64";
const OS: &str = "linux";

/// An image and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The archive: an OCI layout in a tar file.
    pub archive: Vec<u8>,
    /// The digest of its manifest, by which it is pulled.
    pub digest: String,
}

/// A blob with its descriptor.
struct Blob {
    media_type: &'static str,
    digest: String,
    data: Vec<u8>,
}

impl Blob {
    fn new(media_type: &'static str, data: Vec<u8>) -> Self {
        Self { media_type, digest: format!("sha256:{}", sha256(&data)), data }
    }

    fn json(media_type: &'static str, value: &Value) -> Self {
        Self::new(media_type, value.to_string().into_bytes())
    }

    fn descriptor(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest, "size": self.data.len()})
    }
}

/// The image `name`, such as `nodewarden:0.1.0`, of `layers`, from the lowest to the uppermost, each with the
/// history's line that tells what it is.
///
/// # Errors
/// When a layer can't be written.
pub fn pack(
    release: &Release,
    name: &str,
    layers: &[(&str, &Tree)],
    effort: Effort,
) -> Result<Image, DistError> {
    let time = release.seconds()?;
    let created = release.rfc3339()?;
    let (mut blobs, mut diff_ids, mut history) = (Vec::new(), Vec::new(), Vec::new());
    for (what, tree) in layers {
        let tar = archive::tar(tree, "", time)?;
        diff_ids.push(format!("sha256:{}", sha256(&tar)));
        history.push(json!({"created": created, "created_by": what}));
        blobs.push(Blob::new(LAYER, archive::gzip(&tar, effort)?));
    }
    let labels = json!({
        "org.opencontainers.image.title": "nodewarden",
        "org.opencontainers.image.version": release.package_version()?,
        "org.opencontainers.image.revision": release.commit,
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.licenses": "Apache-2.0 OR GPL-2.0",
    });
    let config = Blob::json(
        CONFIG,
        &json!({
            "created": created,
            "architecture": ARCHITECTURE,
            "os": OS,
            "config": {
                "User": "0:0",
                "Entrypoint": [PROGRAM],
                "Env": ["PATH=/usr/bin"],
                "WorkingDir": "/",
                "Labels": labels,
            },
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": history,
        }),
    );
    let manifest = Blob::json(
        MANIFEST,
        &json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(),
            "layers": blobs.iter().map(Blob::descriptor).collect::<Vec<_>>(),
            "annotations": labels,
        }),
    );
    let mut descriptor = manifest.descriptor();
    let tag = name.rsplit_once(':').map_or(name, |(_, tag)| tag);
    descriptor["platform"] = json!({"architecture": ARCHITECTURE, "os": OS});
    descriptor["annotations"] =
        json!({"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": qualified(name)});
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]});
    let digest = manifest.digest.clone();
    let mut layout = Tree::default();
    layout.file("oci-layout", json!({"imageLayoutVersion": "1.0.0"}).to_string());
    layout.file("index.json", index.to_string());
    blobs.extend([config, manifest]);
    for blob in blobs {
        layout.file(&format!("blobs/{}", blob.digest.replace(':', "/")), blob.data);
    }
    Ok(Image { archive: archive::tar(&layout, "", time)?, digest })
}

/// The name with the registry that a container runtime adds.
fn qualified(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("docker.io/library/{name}") }
}

/// The layer with the binary.
pub fn program_layer(binary: &[u8]) -> Tree {
    let mut tree = Tree::default();
    tree.program(PROGRAM.trim_start_matches('/'), binary);
    tree
}

/// The layer below: shared libraries by the paths where the loader finds them, and the little that the C
/// library reads.
pub fn base_layer(libraries: impl IntoIterator<Item = (String, Vec<u8>)>) -> Tree {
    let mut tree = Tree::default();
    for (path, data) in libraries {
        tree.program(path.trim_start_matches('/'), data);
    }
    tree.file("etc/passwd", "root:x:0:0:root:/:/sbin/nologin\n");
    tree.file("etc/group", "root:x:0:\n");
    tree.file("etc/nsswitch.conf", "hosts: files dns\n");
    tree.add("tmp", 0o1777, crate::tree::Content::Folder, false);
    tree
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::release;

    fn image() -> Image {
        let base = base_layer([("/lib64/ld-linux-x86-64.so.2".to_owned(), b"loader".to_vec())]);
        let layers = [("base", &base), ("program", &program_layer(b"binary"))];
        pack(&release::example(), "nodewarden:0.1.0", &layers, Effort::Quick).unwrap()
    }

    /// The files of the layout, by path.
    fn files(archive: &[u8]) -> std::collections::BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().unwrap().map(Result::unwrap);
        entries
            .map(|mut entry| {
                let mut data = Vec::new();
                entry.read_to_end(&mut data).unwrap();
                (entry.path().unwrap().display().to_string(), data)
            })
            .collect()
    }

    #[test]
    fn every_descriptor_names_a_blob_with_its_digest_and_size() {
        let image = image();
        let files = files(&image.archive);
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            let data = &files[&format!("blobs/{}", digest.replace(':', "/"))];
            assert_eq!(digest, format!("sha256:{}", sha256(data)));
            assert_eq!(descriptor["size"], data.len());
            data.clone()
        };
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let manifest = &index["manifests"][0];
        assert_eq!(manifest["digest"], image.digest);
        assert_eq!(manifest["annotations"]["io.containerd.image.name"], "docker.io/library/nodewarden:0.1.0");
        let manifest: Value = serde_json::from_slice(&blob(manifest)).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        assert_eq!(config["config"]["Entrypoint"][0], PROGRAM);
        let layers = manifest["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 2);
        for (layer, diff_id) in layers.iter().zip(config["rootfs"]["diff_ids"].as_array().unwrap()) {
            let mut tar = Vec::new();
            flate2::read::GzDecoder::new(blob(layer).as_slice()).read_to_end(&mut tar).unwrap();
            assert_eq!(*diff_id, format!("sha256:{}", sha256(&tar)));
        }
    }

    #[test]
    fn the_same_layers_make_the_same_image() {
        assert_eq!(image(), image());
    }
}
