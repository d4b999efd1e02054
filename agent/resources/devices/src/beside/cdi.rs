//! CDI files: which device nodes a CDI device stands for (Container Device Interface, specification 0.3 to
//! 1.0).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nodewarden_model::{HostDevice, HostDeviceKind};
use serde::Deserialize;

use crate::policy::Access;

/// Where they are on a node; a later directory overrides an earlier one. `/var/run` may be a link that leads
/// out of the root by which the node is seen.
const DIRECTORIES: [&str; 3] = ["etc/cdi", "run/cdi", "var/run/cdi"];
/// A larger file is none.
const LARGEST: u64 = 4 << 20;

/// A device node that a container gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CdiNode {
    /// Where it is on the machine.
    pub path: String,
    /// Its type and numbers, if the file says them.
    pub device: Option<HostDevice>,
    pub access: Access,
}

/// All devices of the files by full name: `vendor/class=device`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cdi {
    devices: BTreeMap<String, Vec<CdiNode>>,
    /// What could not be read, as sentences.
    pub problems: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    kind: String,
    devices: Vec<Device>,
    container_edits: Edits,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Device {
    name: String,
    container_edits: Edits,
}

#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "camelCase", default)]
struct Edits {
    device_nodes: Option<Vec<Node>>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "camelCase", default)]
struct Node {
    path: String,
    host_path: String,
    #[serde(rename = "type")]
    kind: String,
    major: Option<i64>,
    minor: Option<i64>,
    permissions: String,
}

impl Cdi {
    /// Reads the files of a node whose file system is seen at `root`. Blocks on the file system.
    pub fn read(root: &Path) -> Self {
        let mut all = Self::default();
        let mut read: Vec<PathBuf> = Vec::new();
        for directory in DIRECTORIES {
            let directory = root.join(directory);
            let Ok(real) = directory.canonicalize() else { continue };
            if read.contains(&real) {
                continue;
            }
            all.add_directory(&real);
            read.push(real);
        }
        all
    }

    fn add_directory(&mut self, directory: &Path) {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_spec = |path: &PathBuf| {
            path.extension().is_some_and(|end| ["json", "yaml"].iter().any(|known| end == *known))
        };
        let mut files: Vec<PathBuf> = entries.filter(is_spec).collect();
        files.sort();
        let mut own = BTreeMap::new();
        for path in files {
            let spec = match text(&path) {
                Ok(text) => devices(&text),
                Err(why) => Err(why),
            };
            match spec {
                Ok(found) => self.merge(&mut own, found, &path),
                Err(why) => self.problems.push(format!("{}: {why}", path.display())),
            }
        }
        for (name, nodes) in own {
            match nodes {
                Some(nodes) => self.devices.insert(name, nodes),
                None => self.devices.remove(&name),
            };
        }
    }

    /// Two files of one directory that name the same device are at odds: neither counts, as for runtimes.
    fn merge(
        &mut self,
        own: &mut BTreeMap<String, Option<Vec<CdiNode>>>,
        found: BTreeMap<String, Vec<CdiNode>>,
        path: &Path,
    ) {
        for (name, nodes) in found {
            let is_new = !own.contains_key(&name);
            if !is_new {
                self.problems.push(format!("{}: {name} is in another file too", path.display()));
            }
            own.insert(name, is_new.then_some(nodes));
        }
    }

    /// The device nodes of a device by full name; `None` if no file has it.
    pub fn nodes(&self, name: &str) -> Option<&[CdiNode]> {
        self.devices.get(name).map(Vec::as_slice)
    }

    /// The device nodes of all devices of a kind, which plugins usually name as their resource.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a CdiNode> {
        let of_it = move |name: &str| name.split_once('=').is_some_and(|(own, _)| own == kind);
        self.devices.iter().filter(move |(name, _)| of_it(name)).flat_map(|(_, nodes)| nodes)
    }
}

fn text(path: &Path) -> Result<String, String> {
    let length = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > LARGEST {
        return Err("it is larger than 4 MiB".to_owned());
    }
    fs::read_to_string(path).map_err(|error| error.to_string())
}

/// The devices of one file, each with the nodes that all devices of the file have. YAML includes JSON.
fn devices(text: &str) -> Result<BTreeMap<String, Vec<CdiNode>>, String> {
    let spec: Spec = serde_yaml_ng::from_str(text).map_err(|error| error.to_string())?;
    if !spec.kind.contains('/') {
        return Err(format!("its kind is {:?}, not vendor/class", spec.kind));
    }
    let common = spec.container_edits.device_nodes.unwrap_or_default();
    let device = |own: Device| {
        let nodes = own.container_edits.device_nodes.unwrap_or_default();
        let nodes = nodes.iter().chain(&common).map(node).collect();
        (format!("{}={}", spec.kind, own.name), nodes)
    };
    Ok(spec.devices.into_iter().map(device).collect())
}

fn node(own: &Node) -> CdiNode {
    let path = if own.host_path.is_empty() { &own.path } else { &own.host_path };
    let kind = match own.kind.as_str() {
        "b" => Some(HostDeviceKind::Block),
        "c" | "u" => Some(HostDeviceKind::Char),
        _ => None,
    };
    let number = |number: Option<i64>| number.and_then(|number| u32::try_from(number).ok());
    let device = match (kind, number(own.major), number(own.minor)) {
        (Some(kind), Some(major), Some(minor)) if major > 0 => {
            Some(HostDevice { path: path.clone(), kind, major, minor })
        }
        _ => None,
    };
    let access = if own.permissions.is_empty() { Access::ALL } else { Access::parse(&own.permissions) };
    CdiNode { path: path.clone(), device, access }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: &str = r#"{"cdiVersion": "0.6.0", "kind": "v.com/gpu",
        "devices": [
            {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/v0", "hostPath": "/dev/real0", "permissions": "rw"}]}},
            {"name": "1", "containerEdits": {"deviceNodes": [{"path": "/dev/v1", "type": "c", "major": 195, "minor": 1}]}},
            {"name": "none", "containerEdits": {"env": ["A=b"]}}],
        "containerEdits": {"deviceNodes": [{"path": "/dev/vctl"}]}}"#;

    fn paths(nodes: Option<&[CdiNode]>) -> Option<Vec<&str>> {
        nodes.map(|nodes| nodes.iter().map(|node| node.path.as_str()).collect())
    }

    #[test]
    fn a_device_has_its_nodes_and_those_of_the_whole_file() {
        let found = devices(GPU).unwrap();
        let expected = CdiNode { path: "/dev/real0".into(), device: None, access: Access::READ_WRITE };
        assert_eq!(found["v.com/gpu=0"][0], expected);
        let one = HostDevice { path: "/dev/v1".into(), kind: HostDeviceKind::Char, major: 195, minor: 1 };
        assert_eq!(found["v.com/gpu=1"][0].device, Some(one));
        assert_eq!(found["v.com/gpu=none"].len(), 1, "the file's own");
        for wrong in ["", "[]", "{kind: gpu}", "{kind: [a]}", "{kind: a/b, devices: 1}"] {
            assert!(devices(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn later_directories_override_and_files_at_odds_say_nothing() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let spec = |name: &str, path: &str| {
            format!(
                "kind: v.com/gpu\ndevices: [{{name: {name}, containerEdits: {{deviceNodes: [{{path: {path}}}]}}}}]\n"
            )
        };
        write("etc/cdi/a.json", GPU);
        write("run/cdi/b.yaml", &spec("'0'", "/dev/other"));
        write("run/cdi/c.yaml", &spec("twice", "/dev/a"));
        write("run/cdi/d.yaml", &spec("twice", "/dev/b"));
        write("run/cdi/e.yaml", "kind: none");
        write("run/cdi/f.txt", "not looked at");
        fs::create_dir_all(root.path().join("var")).unwrap();
        std::os::unix::fs::symlink("../run", root.path().join("var/run")).unwrap();
        let cdi = Cdi::read(root.path());
        assert_eq!(paths(cdi.nodes("v.com/gpu=0")), Some(vec!["/dev/other"]));
        assert_eq!(paths(cdi.nodes("v.com/gpu=1")), Some(vec!["/dev/v1", "/dev/vctl"]));
        assert_eq!(cdi.nodes("v.com/gpu=twice"), None);
        assert_eq!(cdi.problems.len(), 2, "{:?}", cdi.problems);
        assert_eq!(cdi.of_kind("v.com/gpu").count(), 1 + 2 + 1);
        assert_eq!(cdi.of_kind("v.com/gp").count(), 0);
        assert_eq!(Cdi::read(Path::new("/no such directory")), Cdi::default());
    }
}
