//! The order of crates and rooms, and what breaks it.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::imports::{Sources, rooms};

/// `[workspace.metadata.layers]` of the root Cargo.toml.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Packages from the ground to the top: each may depend only on those before it.
    pub crates: Vec<String>,
    /// The top-level modules of each package from the ground to the top. Below `agent/` every package has
    /// them.
    #[serde(default)]
    pub rooms: BTreeMap<String, Vec<String>>,
}

/// One package of the workspace.
#[derive(Debug, Clone, Default)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder, from the workspace root.
    pub folder: String,
    /// The text of its Cargo.toml.
    pub manifest: String,
    /// The packages of this workspace that it depends on, those for its tests excepted.
    pub dependencies: Vec<String>,
    /// Its code.
    pub sources: Sources,
}

/// Where the order is broken, and how.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// From the workspace root.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// Below this folder every package must be in the table.
const PRODUCT: &str = "agent";
/// The file that has the table.
const MANIFEST: &str = "Cargo.toml";

/// Compares `packages` with `table`. `root` is the text of the Cargo.toml that has the table.
pub fn check(table: &Table, root: &str, packages: &[Package]) -> Vec<Violation> {
    let in_table =
        |what: String, word: &str| Violation { file: MANIFEST.into(), line: line_of(root, word), what };
    let listed = |name: &str| table.crates.iter().position(|known| known == name);
    let mut violations = Vec::new();
    let only_rooms = || table.rooms.keys().filter(|name| listed(name).is_none());
    for name in table.crates.iter().chain(only_rooms()) {
        if !packages.iter().any(|package| package.name == *name) {
            violations.push(in_table(format!("the table of layers has {name}, which is no package"), name));
        }
    }
    for name in only_rooms() {
        violations.push(in_table(format!("{name} has rooms but no place among the crates"), name));
    }
    for package in packages {
        match listed(&package.name) {
            Some(own) => depends(package, own, &listed, &mut violations),
            None if is_product(package) => {
                violations.push(Violation {
                    file: format!("{}/{MANIFEST}", package.folder),
                    line: 1,
                    what: format!("crate {} is missing in the table of layers", package.name),
                });
            }
            None => {}
        }
        match table.rooms.get(&package.name) {
            Some(order) => room_order(package, order, root, &mut violations),
            None if listed(&package.name).is_some() && is_product(package) => {
                let what = format!("the rooms of {} have no order in the table of layers", package.name);
                violations.push(in_table(what, &package.name));
            }
            None => {}
        }
    }
    violations
}

fn is_product(package: &Package) -> bool {
    package.folder == PRODUCT || package.folder.starts_with(&format!("{PRODUCT}/"))
}

/// Looks at what the package at place `own` depends on.
fn depends(
    package: &Package,
    own: usize,
    listed: &dyn Fn(&str) -> Option<usize>,
    violations: &mut Vec<Violation>,
) {
    for dependency in &package.dependencies {
        let wrong = match listed(dependency) {
            Some(place) if place < own => continue,
            Some(_) => "above it",
            None => "missing in the table of layers",
        };
        violations.push(Violation {
            file: format!("{}/{MANIFEST}", package.folder),
            line: line_of(&package.manifest, dependency),
            what: format!("crate {} depends on crate {dependency}, which is {wrong}", package.name),
        });
    }
}

/// Looks at what the rooms of a package import.
fn room_order(package: &Package, order: &[String], root: &str, violations: &mut Vec<Violation>) {
    let found = rooms(&package.sources);
    let place = |room: &str| order.iter().position(|known| known == room);
    for room in order.iter().filter(|room| !found.names.contains(room)) {
        let what = format!("the table of layers has the room {room}, which {} does not have", package.name);
        violations.push(Violation { file: MANIFEST.into(), line: line_of(root, &package.name), what });
    }
    let in_source = |file: &str| format!("{}/src/{file}", package.folder);
    for room in found.names.iter().filter(|room| place(room).is_none()) {
        let what = format!("room {room} of {} is missing in the table of layers", package.name);
        violations.push(Violation { file: in_source("lib.rs"), line: 1, what });
    }
    for (room, line) in &found.hidden {
        let what = format!("the names of room {room} are exported by `*`, which hides who imports them");
        violations.push(Violation { file: in_source("lib.rs"), line: *line, what });
    }
    for (file, line, candidates) in &found.missing {
        let what = format!("the module has no file {candidates}");
        violations.push(Violation { file: in_source(file), line: *line, what });
    }
    for import in &found.imports {
        if let (Some(from), Some(to)) = (place(&import.from), place(&import.to))
            && to > from
        {
            let what = format!("room {} imports room {}, which is above it", import.from, import.to);
            violations.push(Violation { file: in_source(&import.file), line: import.line, what });
        }
    }
}

/// The first line that has `name` as a whole, else 1.
fn line_of(text: &str, name: &str) -> usize {
    let part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let has = |line: &str| line.split(|c| !part(c)).any(|word| word == name);
    text.lines().position(has).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace.metadata.layers]\ncrates = [\"ground\", \"top\"]\n\n\
        [workspace.metadata.layers.rooms]\ntop = [\"low\", \"high\"]\n";

    fn table() -> Table {
        let rooms =
            [("top".to_owned(), vec!["low".to_owned(), "high".to_owned()]), ("ground".into(), vec![])];
        Table { crates: vec!["ground".into(), "top".into()], rooms: rooms.into() }
    }

    fn package(name: &str, folder: &str, dependencies: &[&str], sources: &[(&str, &str)]) -> Package {
        let lines = dependencies.iter().map(|name| format!("{name}.workspace = true\n")).collect::<String>();
        Package {
            name: name.into(),
            folder: folder.into(),
            manifest: format!("[package]\nname = \"{name}\"\n\n[dependencies]\n{lines}"),
            dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
            sources: sources.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect(),
        }
    }

    fn top(low: &str, high: &str) -> Package {
        let sources = [("lib.rs", "pub mod high;\nmod low;"), ("low.rs", low), ("high.rs", high)];
        package("top", "agent", &["ground"], &sources)
    }

    fn violations(packages: &[Package]) -> Vec<String> {
        check(&table(), ROOT, packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn imports_downwards_are_in_order() {
        let ground = package("ground", "agent/ground", &[], &[]);
        assert_eq!(violations(&[ground, top("", "use crate::low;")]), [""; 0]);
    }

    #[test]
    fn an_upward_import_of_a_room_is_named() {
        let ground = package("ground", "agent/ground", &[], &[]);
        let planted = "//! Low.\n\nuse std::io;\nuse crate::high::Thing;\n";
        assert_eq!(
            violations(&[ground, top(planted, "use crate::low;")]),
            ["agent/src/low.rs:4: room low imports room high, which is above it"]
        );
    }

    #[test]
    fn an_upward_dependency_of_a_crate_is_named() {
        let ground = package("ground", "agent/ground", &["top"], &[]);
        assert_eq!(
            violations(&[ground, top("", "")]),
            ["agent/ground/Cargo.toml:5: crate ground depends on crate top, which is above it"]
        );
    }

    #[test]
    fn rooms_without_an_order_and_names_behind_a_star_are_named() {
        let ground = package("ground", "agent/ground", &[], &[("lib.rs", "mod a;"), ("a.rs", "")]);
        let mut table = table();
        table.rooms.remove("ground");
        let mut top = top("", "");
        top.sources.insert("lib.rs".into(), "pub mod high;\nmod low;\npub use low::*;".into());
        let found = check(&table, ROOT, &[ground.clone(), top]);
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "Cargo.toml:2: the rooms of ground have no order in the table of layers",
                "agent/src/lib.rs:3: the names of room low are exported by `*`, which hides who imports them",
            ]
        );
        let elsewhere = Package { folder: "ebpf/abi".into(), ..ground };
        let top = package("top", "agent", &["ground"], &[("lib.rs", "mod low { } mod high { }")]);
        assert_eq!(check(&table, ROOT, &[elsewhere, top]), []);
    }

    #[test]
    fn what_only_one_side_has_is_named() {
        let stranger = package("stranger", "agent/stranger", &[], &[]);
        let tests = package("tests", "tests", &["top", "stranger"], &[]);
        let mut top = package("top", "agent", &["stranger"], &[("lib.rs", "mod low;"), ("low.rs", "")]);
        assert_eq!(
            violations(&[stranger.clone(), tests.clone(), top.clone()]),
            [
                "Cargo.toml:2: the table of layers has ground, which is no package",
                "agent/stranger/Cargo.toml:1: crate stranger is missing in the table of layers",
                "agent/Cargo.toml:5: crate top depends on crate stranger, which is missing in the table of layers",
                "Cargo.toml:2: the table of layers has the room high, which top does not have",
            ]
        );
        top.dependencies.clear();
        top.sources = [("lib.rs", "mod low { } mod high; mod extra { }")]
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into();
        let ground = package("ground", "agent/ground", &[], &[]);
        assert_eq!(
            violations(&[ground, top]),
            [
                "agent/src/lib.rs:1: room extra of top is missing in the table of layers",
                "agent/src/lib.rs:1: the module has no file high.rs or high/mod.rs",
            ]
        );
    }
}
