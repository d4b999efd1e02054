//! What Kubernetes generates before it is compiled, and its source package does not have.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::go::{Go, TREE};
use super::{StepError, partial};
use xtask_common::files::{self, FileError};
use xtask_common::progress::Progress;

/// The comment of the packages whose types are described.
const MARK: &str = "+k8s:openapi-gen=true";
/// Their folders in the tree (build/root/Makefile.generated_files, KUBE_OPENAPI_TAG_FILES).
const MARKED: [&str; 3] = ["pkg", "cmd", "plugin"];
/// Their folder with packages of their own, which are imported as vendored ones.
const STAGING: &str = "staging/src";
const NOT_DESCRIBED: [&str; 2] = ["k8s.io/code-generator", "k8s.io/sample-apiserver"];
/// What the node suite embeds (hack/generate-bindata.sh).
const EMBEDDED: [&str; 5] = [
    "test/conformance/testdata/...",
    "test/e2e/testing-manifests/...",
    "test/e2e_node/testing-manifests/...",
    "test/images/...",
    "test/fixtures/...",
];

/// Writes `pkg/generated/openapi/zz_generated.openapi.go`, which kube-apiserver is compiled with.
///
/// # Errors
/// When the generator does not build or fails.
pub fn open_api(go: &Go<'_>, progress: &mut Progress) -> Result<(), StepError> {
    const NAME: &str = "zz_generated.openapi";
    let package = "pkg/generated/openapi";
    if go.tree().join(package).join(format!("{NAME}.go")).exists() {
        return Ok(());
    }
    let generator = go.generator("k8s.io/kube-openapi/cmd/openapi-gen", progress)?;
    let packages = described(&go.tree())?;
    let mut command = go.in_tree(generator);
    command.args(["-h", "hack/boilerplate/boilerplate.generatego.txt", "-O", NAME]);
    command.args(["-i", &packages.join(","), "-p", &format!("{TREE}/{package}")]);
    command.arg("-r").arg(go.path().join("openapi-violations"));
    Ok(go.follow(&mut command, progress)?)
}

/// Writes `test/e2e/generated/bindata.go`, which the suite is compiled with.
///
/// # Errors
/// When the generator does not build or fails.
pub fn embedded_files(go: &Go<'_>, progress: &mut Progress) -> Result<(), StepError> {
    let output = go.tree().join("test/e2e/generated/bindata.go");
    if output.exists() {
        return Ok(());
    }
    let generator = go.generator("github.com/go-bindata/go-bindata/go-bindata", progress)?;
    let unfinished = partial(&output);
    let mut command = go.in_tree(generator);
    command.args(["-nometadata", "-pkg", "generated", "-o"]).arg(&unfinished);
    for pattern in [".jpg", ".png", ".md", "BUILD(\\.bazel)?"] {
        command.args(["-ignore", pattern]);
    }
    command.args(EMBEDDED);
    go.follow(&mut command, progress)?;
    Ok(files::rename(&unfinished, &output)?)
}

/// The import paths of all packages with the mark.
fn described(tree: &Path) -> Result<Vec<String>, FileError> {
    let mut found = BTreeSet::new();
    for folder in MARKED.map(|name| tree.join(name)) {
        marked(&folder, &mut found)?;
    }
    marked(&tree.join(STAGING), &mut found)?;
    let paths = found.iter().filter_map(|folder| import_path(folder.strip_prefix(tree).ok()?));
    Ok(paths.collect())
}

/// The import path of a folder of the tree, or `None` if it is not described.
fn import_path(folder: &Path) -> Option<String> {
    let Ok(staged) = folder.strip_prefix(STAGING) else {
        return Some(format!("{TREE}/{}", folder.display()));
    };
    let left_out = NOT_DESCRIBED.iter().any(|name| staged.starts_with(name));
    (!left_out).then(|| format!("{TREE}/vendor/{}", staged.display()))
}

/// Collects the folders below `folder` with a Go file that has the mark.
fn marked(folder: &Path, found: &mut BTreeSet<PathBuf>) -> Result<(), FileError> {
    for entry in fs::read_dir(folder).map_err(FileError::of("read", folder))? {
        let entry = entry.map_err(FileError::of("read", folder))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(FileError::of("look at", folder))?);
        if kind.is_dir() {
            marked(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "go") && !found.contains(folder) {
            let text = files::read(&path)?;
            if text.windows(MARK.len()).any(|part| part == MARK.as_bytes()) {
                found.insert(folder.to_owned());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staged_packages_are_imported_as_vendored_ones() {
        let temp = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = temp.path().join(path);
            files::create_folder(path.parent().unwrap()).unwrap();
            files::write(&path, text).unwrap();
        };
        let mark = format!("// {MARK}\npackage v1\n");
        put("pkg/apis/abac/v0/doc.go", &mark);
        put("pkg/apis/abac/v0/more.go", &mark);
        put("pkg/other/doc.go", "package other\n");
        put("cmd/x/notes.txt", &mark);
        put("plugin/x.go", "");
        put("staging/src/k8s.io/api/core/v1/doc.go", &mark);
        put("staging/src/k8s.io/sample-apiserver/pkg/doc.go", &mark);
        let expected = ["k8s.io/kubernetes/pkg/apis/abac/v0", "k8s.io/kubernetes/vendor/k8s.io/api/core/v1"];
        assert_eq!(described(temp.path()).unwrap(), expected);
    }
}
