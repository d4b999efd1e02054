//! How the files were built, as an in-toto statement with SLSA's provenance (version 1). It is not signed.

use serde_json::{Value, json};

use crate::archive::sha256;
use crate::{DistError, Release};

/// What kind of build this is: the document that explains it.
const BUILD_TYPE: &str = "https://nodewarden.invalid/docs/installing.md#how-releases-are-built";
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://slsa.dev/provenance/v1";

/// Something that the build took in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Material {
    /// What it is, as a package URL or a name.
    pub uri: String,
    /// The algorithm of its digest, such as `sha256` or `gitCommit`, and the digest; `None` if it has none.
    pub digest: Option<(String, String)>,
}

/// The statement about `files`, by name, built of `materials` by `compiler`.
///
/// # Errors
/// When the release's time is out of range.
pub fn make(
    release: &Release,
    files: &[(&str, &[u8])],
    materials: &[Material],
    compiler: &str,
) -> Result<Value, DistError> {
    let subject: Vec<_> =
        files.iter().map(|(name, data)| json!({"name": name, "digest": {"sha256": sha256(data)}})).collect();
    let source = json!({
        "uri": "git+nodewarden",
        "digest": {"gitCommit": release.commit},
        "annotations": {"dirty": release.dirty},
    });
    let materials = materials.iter().map(|own| match &own.digest {
        Some((algorithm, digest)) => json!({"uri": own.uri, "digest": {algorithm: digest}}),
        None => json!({"uri": own.uri}),
    });
    let time = release.rfc3339()?;
    Ok(json!({
        "_type": STATEMENT,
        "subject": subject,
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"command": "cargo xtask dist", "version": release.package_version()?},
                "internalParameters": {"compiler": compiler, "SOURCE_DATE_EPOCH": release.time},
                "resolvedDependencies": std::iter::once(source).chain(materials).collect::<Vec<_>>(),
            },
            "runDetails": {
                "builder": {"id": "https://nodewarden.invalid/xtask"},
                // The commit's, since the same commit makes the same files.
                "metadata": {"startedOn": time, "finishedOn": time},
            },
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release;

    #[test]
    fn the_statement_names_each_file_by_its_digest_and_the_source_by_its_commit() {
        let materials = [Material {
            uri: "pkg:deb/debian/libc6@2.31".to_owned(),
            digest: Some(("sha256".to_owned(), "ab".to_owned())),
        }];
        let made = make(&release::example(), &[("a.deb", b"")], &materials, "rustc 1.95.0").unwrap();
        assert_eq!(made["subject"][0]["name"], "a.deb");
        assert_eq!(made["subject"][0]["digest"]["sha256"], sha256(b""));
        let dependencies = &made["predicate"]["buildDefinition"]["resolvedDependencies"];
        assert_eq!(dependencies[0]["digest"]["gitCommit"], release::example().commit);
        assert_eq!(dependencies[1]["digest"]["sha256"], "ab");
    }
}
