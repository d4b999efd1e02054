//! The files of the page, which are part of the binary.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// A file as it is served.
#[derive(Debug)]
pub(super) struct File {
    /// Its name below `/ui/`.
    pub name: &'static str,
    /// The media type.
    pub content_type: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
    /// Changes with the content, so that browsers ask with it and get the file only when it is another one.
    pub etag: String,
}

macro_rules! files {
    ($($name:literal $from:literal $type:ident),+ $(,)?) => {
        vec![$(File::new($name, $type, include_bytes!(concat!("../../../ui/", $from)))),+]
    };
}

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    files![
        "index.html" "index.html" HTML,
        "style.css" "style.css" STYLE,
        "icon.svg" "icon.svg" IMAGE,
        "app.js" "app.js" SCRIPT,
        "model.js" "model.js" SCRIPT,
        "format.js" "format.js" SCRIPT,
        "dom.js" "dom.js" SCRIPT,
        "grid.js" "grid.js" SCRIPT,
        "charts.js" "charts.js" SCRIPT,
        "overview.js" "overview.js" SCRIPT,
        "pods.js" "pods.js" SCRIPT,
        "detail.js" "detail.js" SCRIPT,
        "timeline.js" "timeline.js" SCRIPT,
        "tree.js" "tree.js" SCRIPT,
        "devices.js" "devices.js" SCRIPT,
        "uplot.js" "vendor/uplot/uPlot.iife.min.js" SCRIPT,
        "uplot.css" "vendor/uplot/uPlot.min.css" STYLE,
        "uplot-license.txt" "vendor/uplot/LICENSE" TEXT,
    ]
});

impl File {
    fn new(name: &'static str, content_type: &'static str, bytes: &'static [u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        Self { name, content_type, bytes, etag: format!("\"{:016x}\"", hasher.finish()) }
    }
}

/// The file of this name.
pub(super) fn find(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}

/// All files.
#[cfg(test)]
pub(super) fn all() -> &'static [File] {
    &FILES
}
