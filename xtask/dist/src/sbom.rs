//! The bill of materials: every crate that the binary is made of, in CycloneDX 1.6, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::archive::sha256;
use crate::{DistError, Release};

/// What of `cargo metadata` is read.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    description: Option<String>,
    source: Option<String>,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

impl Package {
    /// Whether it runs in the compiler only.
    fn is_macro(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "proc-macro"))
    }

    /// Its package URL.
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B"))
    }
}

/// The bill of materials of the packages `roots`, of which the first is what is shipped.
///
/// `metadata` is what `cargo metadata` prints, `lock` the text of `Cargo.lock`.
///
/// # Errors
/// When the metadata is not understood or lacks a package.
pub fn make(release: &Release, metadata: &str, lock: &str, roots: &[&str]) -> Result<Value, DistError> {
    let metadata: Metadata = serde_json::from_str(metadata)?;
    let packages: BTreeMap<&str, &Package> =
        metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let own = |name: &str| {
        let mut found =
            metadata.packages.iter().filter(|package| package.name == name && package.source.is_none());
        found.next().ok_or_else(|| DistError::UnknownPackage(name.to_owned()))
    };
    let roots = roots.iter().map(|name| own(name)).collect::<Result<Vec<_>, _>>()?;
    let Some(main) = roots.first() else { return Err(DistError::UnknownPackage(String::new())) };

    let reached = reach(&roots, &packages, &nodes)?;
    let checksums = checksums(lock);
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for id in &reached {
        let package = packages[id];
        let below = normal(nodes.get(id)).filter(|below| reached.contains(below));
        let below: BTreeSet<String> = below.map(|below| packages[below].purl()).collect();
        dependencies.push(json!({"ref": package.purl(), "dependsOn": below}));
        if package.id != main.id {
            components.push(component(package, &checksums));
        }
    }
    components.sort_by_key(|own| own["bom-ref"].to_string());
    dependencies.sort_by_key(|own| own["ref"].to_string());
    let mut bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": release.rfc3339()?,
            "component": {
                "type": "application",
                "bom-ref": main.purl(),
                "name": main.name,
                "version": release.package_version()?,
                "licenses": [{"expression": "Apache-2.0 OR GPL-2.0"}],
                "purl": main.purl(),
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    bill["serialNumber"] = format!("urn:uuid:{}", uuid(&bill.to_string())).into();
    Ok(bill)
}

/// Every package that ends up in what `roots` are compiled to: what they depend on normally, and what that
/// does. Macros, and what only they need, run in the compiler.
fn reach<'a>(
    roots: &[&'a Package],
    packages: &BTreeMap<&'a str, &'a Package>,
    nodes: &BTreeMap<&'a str, &'a Node>,
) -> Result<BTreeSet<&'a str>, DistError> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = roots.iter().map(|package| package.id.as_str()).collect();
    while let Some(id) = next.pop() {
        let package = packages.get(id).ok_or_else(|| DistError::UnknownPackage(id.to_owned()))?;
        if !package.is_macro() && reached.insert(id) {
            next.extend(normal(nodes.get(id)));
        }
    }
    Ok(reached)
}

/// What a package depends on when it runs.
fn normal<'a>(node: Option<&&'a Node>) -> impl Iterator<Item = &'a str> {
    let edges = node.into_iter().flat_map(|node| &node.deps);
    let edges = edges.filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none()));
    edges.map(|edge| edge.pkg.as_str())
}

fn component(package: &Package, checksums: &BTreeMap<(&str, &str), &str>) -> Value {
    let mut own = json!({
        "type": "library",
        "bom-ref": package.purl(),
        "name": package.name,
        "version": package.version,
        "scope": "required",
        "purl": package.purl(),
    });
    if let Some(description) = &package.description {
        own["description"] = description.split_whitespace().collect::<Vec<_>>().join(" ").into();
    }
    if let Some(license) = &package.license {
        // Crates of before SPDX expressions have a slash for `OR`.
        own["licenses"] = json!([{"expression": license.replace(" / ", "/").replace('/', " OR ")}]);
    }
    if let Some(sum) = checksums.get(&(package.name.as_str(), package.version.as_str())) {
        own["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    own
}

/// The digests of crates, by name and version, in `Cargo.lock`.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let value = |section: &'_ str, key: &str| -> Option<(usize, usize)> {
        let start = section.find(&format!("\n{key} = \""))? + key.len() + 5;
        Some((start, start + section[start..].find('"')?))
    };
    let sections = lock.split("[[package]]").skip(1);
    let rows = sections.filter_map(|section| {
        let text = |key| value(section, key).map(|(start, end)| &section[start..end]);
        Some(((text("name")?, text("version")?), text("checksum")?))
    });
    rows.collect()
}

/// A UUID (version 8: of one's own making) that only depends on `text`.
fn uuid(text: &str) -> String {
    let sum = sha256(text.as_bytes());
    format!("{}-{}-8{}-a{}-{}", &sum[..8], &sum[8..12], &sum[13..16], &sum[17..20], &sum[20..32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\n\
        checksum = \"00ff\"\ndependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"nodewarden\"\nversion = \"0.1.0\"\n";

    fn metadata() -> String {
        let package = |id: &str, kind: &str, license: Option<&str>, source: Option<&str>| {
            json!({"id": id, "name": id, "version": "1.0.0", "license": license, "description": "a\n b",
                   "source": source, "targets": [{"kind": [kind]}]})
        };
        let edge = |id: &str, kind: Option<&str>| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        json!({
            "packages": [
                package("nodewarden", "bin", None, None),
                package("a", "lib", Some("MIT/Apache-2.0"), Some("r")),
                package("derive", "proc-macro", Some("MIT"), Some("r")),
                package("syn", "lib", Some("MIT"), Some("r")),
                package("cc", "lib", Some("MIT"), Some("r")),
                package("tests", "lib", Some("MIT"), Some("r")),
            ],
            "resolve": {"nodes": [
                {"id": "nodewarden", "deps": [edge("a", None), edge("derive", None), edge("tests", Some("dev"))]},
                {"id": "a", "deps": [edge("cc", Some("build"))]},
                {"id": "derive", "deps": [edge("syn", None)]},
                {"id": "syn", "deps": []}, {"id": "cc", "deps": []}, {"id": "tests", "deps": []},
            ]},
        })
        .to_string()
    }

    #[test]
    fn what_runs_only_in_the_compiler_or_in_tests_is_left_out() {
        let bill = make(&release::example(), &metadata(), LOCK, &["nodewarden"]).unwrap();
        let components = bill["components"].as_array().unwrap();
        let names: Vec<_> = components.iter().map(|own| own["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a"]);
        assert_eq!(components[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(components[0]["hashes"][0]["content"], "00ff");
        assert_eq!(components[0]["description"], "a b");
        let main = &bill["dependencies"][1];
        assert_eq!(main["dependsOn"], json!(["pkg:cargo/a@1.0.0"]));
        assert_eq!(bill, make(&release::example(), &metadata(), LOCK, &["nodewarden"]).unwrap());
    }

    #[test]
    fn an_unknown_package_is_an_error() {
        let error = make(&release::example(), &metadata(), LOCK, &["other"]).unwrap_err();
        assert_eq!(error.to_string(), "cargo metadata does not describe other");
        assert!(make(&release::example(), "{}", LOCK, &["nodewarden"]).is_err());
    }

    #[test]
    fn serial_numbers_have_the_form_of_a_uuid() {
        let id = uuid("x");
        let lengths: Vec<_> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_ne!(id, uuid("y"));
    }
}
