//! The example pods (deploy/examples), one per QoS class.

use std::fs;
use std::path::Path;

use super::StageError;

const EXAMPLES: [(&str, &str); 3] = [
    ("guaranteed.yaml", include_str!("../../../deploy/examples/guaranteed.yaml")),
    ("burstable.yaml", include_str!("../../../deploy/examples/burstable.yaml")),
    ("besteffort.yaml", include_str!("../../../deploy/examples/besteffort.yaml")),
];

/// Writes the example pods into a manifest directory. With `host_network` they use the machine's network, for
/// machines where pods cannot have networks of their own.
///
/// # Errors
/// A file cannot be written.
pub fn write(manifests: &Path, host_network: bool) -> Result<(), StageError> {
    fs::create_dir_all(manifests).map_err(StageError::file(manifests))?;
    for (name, text) in EXAMPLES {
        let path = manifests.join(name);
        let text = if host_network { on_host_network(text) } else { text.to_owned() };
        fs::write(&path, text).map_err(StageError::file(&path))?;
    }
    Ok(())
}

/// Removes the example pods that an earlier run wrote.
///
/// # Errors
/// A file cannot be removed, or the directory cannot be made.
pub fn remove(manifests: &Path) -> Result<(), StageError> {
    fs::create_dir_all(manifests).map_err(StageError::file(manifests))?;
    for (name, _) in EXAMPLES {
        let path = manifests.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StageError::file(&path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn on_host_network(manifest: &str) -> String {
    manifest.replacen("\nspec:\n", "\nspec:\n  hostNetwork: true\n", 1)
}

#[cfg(test)]
mod tests {
    use nodewarden_manifest::QosClass;
    use nodewarden_manifest::{Pod, manifest};

    use super::*;

    fn single_pod(text: &str) -> Pod {
        let mut pods: Vec<Pod> = manifest::parse(text).into_iter().map(Result::unwrap).collect();
        assert_eq!(pods.len(), 1);
        pods.remove(0)
    }

    #[test]
    fn the_examples_cover_each_qos_class() {
        let classes = EXAMPLES.map(|(_, text)| single_pod(text).qos);
        assert_eq!(classes, [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort]);
    }

    #[test]
    fn the_examples_can_use_the_host_network() {
        for (name, text) in EXAMPLES {
            assert_eq!(single_pod(text).spec().host_network, None, "{name}");
            assert_eq!(single_pod(&on_host_network(text)).spec().host_network, Some(true), "{name}");
        }
    }
}
