//! What is made of the binary under test.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nodewarden_dist::archive::Effort;
use nodewarden_dist::contents::{self, Format};
use nodewarden_dist::elf::Needs;
use nodewarden_dist::generated::Generated;
use nodewarden_dist::{Release, deb, rpm};

use crate::harness::{Context, Failure};

/// The binary, without debug information, with what it writes itself.
pub struct Made {
    pub binary: Vec<u8>,
    pub needs: Needs,
    generated: Generated,
}

/// For `map_err` on what has an error of its own.
pub fn failed<E: std::fmt::Display>(error: E) -> Failure {
    Failure::Unexpected(error.to_string())
}

impl Made {
    /// Of the agent of this run.
    pub fn of(context: &Context) -> Result<Self, Failure> {
        let small = context.temp.join("nodewarden");
        // Only smaller: what strip leaves out is not looked at.
        let stripped = Command::new("strip").arg("-o").arg(&small).arg(&context.agent).status();
        let path = if stripped.is_ok_and(|status| status.success()) { &small } else { &context.agent };
        let binary = fs::read(path).map_err(Failure::file(path))?;
        let generated = Generated::by(&context.agent, &context.temp.join("pages")).map_err(failed)?;
        Ok(Self { needs: Needs::of(&binary).map_err(failed)?, binary, generated })
    }

    /// Writes a package of the release `number` after another; returns its path and version.
    pub fn package(
        &self,
        context: &Context,
        format: Format,
        number: i64,
    ) -> Result<(PathBuf, String), Failure> {
        let release = release(number);
        let tree = contents::of(format, &self.binary, &self.generated, Effort::Quick).map_err(failed)?;
        let package = match format {
            Format::Deb => deb::package(&release, &tree, &self.needs, Effort::Quick),
            Format::Rpm => rpm::package(&release, &tree, &self.needs, Effort::Quick),
        };
        let path = context.temp.join(&format!("nodewarden-{number}.package"));
        fs::write(&path, package.map_err(failed)?).map_err(Failure::file(&path))?;
        Ok((path, release.package_version().map_err(failed)?))
    }
}

/// A release, `number` days after the first.
pub fn release(number: i64) -> Release {
    Release {
        version: nodewarden_dist::release::VERSION.to_owned(),
        commit: format!("{number:040x}"),
        tagged: false,
        dirty: false,
        time: 1_800_000_000 + number * 86_400,
    }
}
