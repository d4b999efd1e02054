//! What users write: manifests, quantities, the configuration.

use nodewarden_config::Overrides;
use nodewarden_manifest::{Pod, Quantity};

use crate::text;

/// A manifest: each pod that is accepted is written as it was read.
pub fn manifest(input: &[u8]) {
    let Some(text) = text(input) else { return };
    // A carriage return ends a line of YAML too.
    let lines = text.split(['\n', '\r']).count();
    for read in nodewarden_manifest::manifest::parse(text) {
        match read {
            Ok(pod) => {
                let written = serde_json::to_value(pod.to_kubernetes()).expect("a pod is written as JSON");
                let again = serde_json::from_value(written).expect("what was written is a pod");
                assert_eq!(Pod::from_kubernetes(again), Ok(pod.clone()));
                let _ = (pod.requests(), pod.limits());
            }
            Err(error) => {
                assert!(error.line <= lines + 1, "line {} of {lines}: {error}", error.line);
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

/// A quantity: what is displayed is the same amount, and is displayed in the same way. Amounts beyond 64 bits
/// may be displayed without their power of ten, as in apimachinery: `1000E` as `1`.
pub fn quantity(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let Ok(quantity) = Quantity::parse(text) else { return };
    if !quantity.fits_i64() {
        return;
    }
    let shown = quantity.to_string();
    let again =
        Quantity::parse(&shown).unwrap_or_else(|error| panic!("{text:?} is shown as {shown:?}: {error}"));
    assert_eq!(again, quantity, "{text:?} is shown as {shown:?}");
    assert_eq!(again.to_string(), shown, "{text:?}");
}

/// The configuration file: what is accepted and shown is read as the same configuration.
pub fn config(input: &[u8]) {
    let Some(text) = text(input) else { return };
    // Most inputs would fail for want of these lines.
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    for text in [text.to_owned(), format!("{head}{text}")] {
        let Ok(mut config) = nodewarden_config::parse("input", &text, &Overrides::default()) else {
            continue;
        };
        let shown = config.to_yaml();
        let again = nodewarden_config::parse("shown", &shown, &Overrides::default());
        // Keys that do nothing are not shown, and old names are shown as the new ones.
        (config.ignored, config.renamed) = Default::default();
        assert_eq!(again.map_err(|error| error.to_string()), Ok(config), "{shown}");
    }
}
