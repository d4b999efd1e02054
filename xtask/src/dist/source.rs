//! The state of the source: its commit and time; a fresh clone of it.

use nodewarden_dist::Release;
use nodewarden_dist::release::VERSION;
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::process;

use super::DistRunError;

/// What git says about the workspace.
///
/// # Errors
/// When it is no clone of a repository.
pub fn release(layout: &Layout) -> Result<Release, DistRunError> {
    let git = |arguments: &[&str]| process::capture(layout.command("git").args(arguments));
    let commit = git(&["rev-parse", "HEAD"])?.trim().to_owned();
    let time = git(&["show", "--no-patch", "--format=%ct", "HEAD"])?;
    let time = time.trim().parse().map_err(|_| DistRunError::Time(time.clone()))?;
    let tag = format!("v{VERSION}");
    let tagged = git(&["tag", "--points-at", "HEAD"])?.lines().any(|line| line == tag);
    let dirty = !git(&["status", "--porcelain"])?.trim().is_empty();
    Ok(Release { version: VERSION.to_owned(), commit, tagged, dirty, time })
}

/// A clone of HEAD in another folder, with a target directory of its own; what `setup` installed is shared.
///
/// # Errors
/// When git fails.
pub fn clone(layout: &Layout) -> Result<Layout, DistRunError> {
    let root = layout.dist().join("clone");
    files::remove(&root)?;
    let mut git = layout.command("git");
    git.args(["clone", "--quiet", "--shared", "--no-tags", "."]).arg(&root);
    process::capture(&mut git)?;
    let clone = Layout { target: root.join("target"), root };
    files::create_folder(&clone.target)?;
    let tools = clone.tools();
    std::os::unix::fs::symlink(layout.tools(), &tools).map_err(files::FileError::of("create", &tools))?;
    Ok(clone)
}
