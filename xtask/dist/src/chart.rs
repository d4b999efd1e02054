//! The Helm chart as an archive, with the rules and dashboards in it.

use crate::archive::{self, Effort};
use crate::contents::MONITORING;
use crate::release::VERSION;
use crate::tree::Tree;
use crate::{DistError, Release};

const NAME: &str = "nodewarden";
const FILES: [(&str, &str); 13] = [
    (".helmignore", include_str!("../../../deploy/chart/nodewarden/.helmignore")),
    ("Chart.yaml", include_str!("../../../deploy/chart/nodewarden/Chart.yaml")),
    ("values.yaml", include_str!("../../../deploy/chart/nodewarden/values.yaml")),
    ("values.schema.json", include_str!("../../../deploy/chart/nodewarden/values.schema.json")),
    ("templates/NOTES.txt", include_str!("../../../deploy/chart/nodewarden/templates/NOTES.txt")),
    ("templates/_helpers.tpl", include_str!("../../../deploy/chart/nodewarden/templates/_helpers.tpl")),
    ("templates/augment.yaml", include_str!("../../../deploy/chart/nodewarden/templates/augment.yaml")),
    ("templates/configmap.yaml", include_str!("../../../deploy/chart/nodewarden/templates/configmap.yaml")),
    ("templates/daemonset.yaml", include_str!("../../../deploy/chart/nodewarden/templates/daemonset.yaml")),
    ("templates/monitoring.yaml", include_str!("../../../deploy/chart/nodewarden/templates/monitoring.yaml")),
    ("templates/rbac.yaml", include_str!("../../../deploy/chart/nodewarden/templates/rbac.yaml")),
    (
        "templates/serviceaccount.yaml",
        include_str!("../../../deploy/chart/nodewarden/templates/serviceaccount.yaml"),
    ),
    ("templates/undo.yaml", include_str!("../../../deploy/chart/nodewarden/templates/undo.yaml")),
];

/// The chart's file name.
pub fn file_name() -> String {
    format!("{NAME}-chart-{VERSION}.tgz")
}

/// The chart's files, below a folder of its name.
pub fn files() -> Tree {
    let mut tree = Tree::default();
    for (name, text) in FILES {
        tree.file(&format!("{NAME}/{name}"), text);
    }
    for (name, text) in MONITORING {
        tree.file(&format!("{NAME}/files/{name}"), text);
    }
    tree
}

/// The archive that `helm install` takes.
///
/// # Errors
/// When the archive can't be written.
pub fn package(release: &Release, effort: Effort) -> Result<Vec<u8>, DistError> {
    archive::gzip(&archive::tar(&files(), "", release.seconds()?)?, effort)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release;

    #[test]
    fn the_chart_has_every_template_of_its_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/chart/nodewarden/templates");
        let tree = files();
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(tree.data(&format!("nodewarden/templates/{name}")).is_some(), "{name}");
            count += 1;
        }
        assert!(count > 5);
    }

    #[test]
    fn the_chart_has_the_workspaces_version() {
        let text = String::from_utf8(files().data("nodewarden/Chart.yaml").unwrap().to_vec()).unwrap();
        for key in ["version", "appVersion"] {
            assert!(text.lines().any(|line| line == format!("{key}: {VERSION}")), "{key} in\n{text}");
        }
        let pack = || package(&release::example(), Effort::Quick).unwrap();
        assert_eq!(pack(), pack());
    }
}
