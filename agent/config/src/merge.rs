//! Merges drop-in files over the configuration file like the kubelet (`mergeKubeletConfigurations`: JSON
//! merge patch, RFC 7386): mappings are merged by key, other values are replaced, and null removes a key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_yaml_ng::{Mapping, Value};

use super::fields::{join, shown};

/// A configuration merged from several files, with the origin of each value.
#[derive(Debug, Clone)]
pub struct Layers {
    map: Mapping,
    /// The file of a field's value, by field path; other values are from the first file.
    from: BTreeMap<String, PathBuf>,
    first: Option<PathBuf>,
}

impl Layers {
    pub fn new(first: Option<&Path>, map: Mapping) -> Self {
        Self { map, from: BTreeMap::new(), first: first.map(Path::to_owned) }
    }

    /// Merges the content of `file` over the configuration.
    pub fn lay(&mut self, file: &Path, patch: Mapping) {
        merge(&mut self.map, patch, "", &mut |field| {
            let below = format!("{field}.");
            self.from.retain(|known, _| !known.starts_with(&below));
            self.from.insert(field.to_owned(), file.to_owned());
        });
    }

    /// The file that set `field` or the innermost mapping around it.
    pub fn file_of(&self, field: &str) -> Option<&Path> {
        let mut path = field;
        loop {
            if let Some(file) = self.from.get(path) {
                return Some(file);
            }
            match path.rfind('.') {
                Some(end) => path = &path[..end],
                None => return self.first.as_deref(),
            }
        }
    }

    pub fn into_map(self) -> Mapping {
        self.map
    }

    pub fn map_mut(&mut self) -> &mut Mapping {
        &mut self.map
    }
}

/// Merges `patch` into `map` and calls `set` with the path of each value taken from the patch.
fn merge(map: &mut Mapping, patch: Mapping, prefix: &str, set: &mut impl FnMut(&str)) {
    for (key, value) in patch {
        let field = join(prefix, &shown(&key));
        match value {
            Value::Null => {
                map.shift_remove(&key);
                set(&field);
            }
            Value::Mapping(inner) => {
                if !map.get(&key).is_some_and(Value::is_mapping) {
                    map.insert(key.clone(), Value::Mapping(Mapping::new()));
                    set(&field);
                }
                if let Some(Value::Mapping(target)) = map.get_mut(&key) {
                    merge(target, inner, &field, set);
                }
            }
            other => {
                map.insert(key, other);
                set(&field);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn yaml(text: &str) -> Mapping {
        serde_yaml_ng::from_str(text).unwrap()
    }

    fn laid(base: &str, patches: &[&str]) -> Layers {
        let mut layers = Layers::new(Some(Path::new("base")), yaml(base));
        for (i, patch) in patches.iter().enumerate() {
            layers.lay(Path::new(&format!("{i}.conf")), yaml(patch));
        }
        layers
    }

    /// The examples of RFC 7386, appendix A, that have objects on both sides.
    #[test]
    fn maps_are_merged_as_in_rfc_7386() {
        for (base, patch, merged) in [
            ("{a: b}", "{a: c}", "{a: c}"),
            ("{a: b}", "{b: c}", "{a: b, b: c}"),
            ("{a: b}", "{a: null}", "{}"),
            ("{a: b, b: c}", "{a: null}", "{b: c}"),
            ("{a: [b]}", "{a: c}", "{a: c}"),
            ("{a: c}", "{a: [b]}", "{a: [b]}"),
            ("{a: {b: c}}", "{a: {b: d, c: null}}", "{a: {b: d}}"),
            ("{a: [{b: c}]}", "{a: [1]}", "{a: [1]}"),
            ("{e: null}", "{a: 1}", "{e: null, a: 1}"),
            ("{}", "{a: {bb: {ccc: null}}}", "{a: {bb: {}}}"),
        ] {
            assert_eq!(laid(base, &[patch]).into_map(), yaml(merged), "{base} and {patch}");
        }
    }

    #[test]
    fn the_file_of_each_field_is_known() {
        let layers = laid(
            "{port: 1, evictionHard: {memory.available: 1, nodefs.available: 2}, swap: {a: 1}}",
            &["{evictionHard: {memory.available: 3}, swap: 5}", "{swap: {b: 2}, maxPods: null}"],
        );
        for (field, file) in [
            ("port", "base"),
            ("evictionHard", "base"),
            ("evictionHard.memory.available", "0.conf"),
            ("evictionHard.nodefs.available", "base"),
            ("swap.b", "1.conf"),
            ("maxPods", "1.conf"),
            ("absent", "base"),
        ] {
            assert_eq!(layers.file_of(field), Some(Path::new(file)), "{field}");
        }
    }

    proptest! {
        #[test]
        fn the_last_file_wins(values in prop::collection::vec(0..9u32, 1..6)) {
            let patches: Vec<String> = values.iter().map(|v| format!("{{a: {{b: {v}}}}}")).collect();
            let patches: Vec<&str> = patches.iter().map(String::as_str).collect();
            let layers = laid("{a: {b: 99, c: 1}}", &patches);
            let file = format!("{}.conf", values.len() - 1);
            prop_assert_eq!(layers.file_of("a.b"), Some(Path::new(&file)));
            let last = values[values.len() - 1];
            prop_assert_eq!(layers.into_map(), yaml(&format!("{{a: {{b: {last}, c: 1}}}}")));
        }
    }
}
