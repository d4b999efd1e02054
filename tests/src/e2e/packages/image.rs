//! The OCI image, by a real containerd. Its libraries are this machine's, since the binary under test was
//! linked here.

use std::fs;
use std::process::Command;

use nodewarden_dist::archive::Effort;
use nodewarden_dist::image::{self, Image};

use super::made::{Made, failed, release};
use crate::ensure;
use crate::fixture::Containerd;
use crate::harness::{Capability, Context, Failure, Test};

pub const TESTS: &[Test] = &[Test::new("package_image_is_imported_and_runs", runs).timeout(180).needs(&[
    Capability::Root,
    Capability::FullSpeed,
    Capability::PrivateCri,
])];

/// The image's name in a container runtime.
pub const NAME: &str = "docker.io/library/nodewarden:test";

/// containerd imports the archive under its name and digest, and a container of it runs the binary.
fn runs(context: &Context) -> Result<(), Failure> {
    let containerd = Containerd::private(context)?;
    let image = import(context, &containerd)?;
    let listed = containerd.ctr(&["images", "list", &format!("name=={NAME}")])?;
    ensure!(listed.contains(&image.digest), "{NAME} with {} is not in\n{listed}", image.digest);
    let shown = containerd.run_once(NAME, &["/usr/bin/nodewarden", "--version"])?;
    ensure!(shown.starts_with("nodewarden "), "the container says {shown}");
    let help = containerd.run_once(NAME, &["/usr/bin/nodewarden", "config", "show"])?;
    ensure!(help.contains("mode: observe"), "the container says {help}");
    Ok(())
}

/// Imports an image [`NAME`] of the agent of this run.
pub fn import(context: &Context, containerd: &Containerd) -> Result<Image, Failure> {
    let made = Made::of(context)?;
    let base = image::base_layer(libraries(context)?);
    let layers = [("libraries", &base), ("nodewarden", &image::program_layer(&made.binary))];
    let image = image::pack(&release(1), "nodewarden:test", &layers, Effort::Quick).map_err(failed)?;
    let path = context.temp.join("image.tar");
    fs::write(&path, &image.archive).map_err(Failure::file(&path))?;
    containerd.import(&path)?;
    Ok(image)
}

/// The shared libraries of the agent with their paths, and the loader.
fn libraries(context: &Context) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let output = Command::new("ldd").arg(&context.agent).output().map_err(Failure::file("ldd"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = text.lines().filter_map(|line| {
        let path = line.split_once("=>").map_or(line, |(_, path)| path).split_whitespace().next()?;
        path.starts_with('/').then(|| path.to_owned())
    });
    paths.map(|path| Ok((path.clone(), fs::read(&path).map_err(Failure::file(&path))?))).collect()
}
