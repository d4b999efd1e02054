//! `cargo xtask vm cluster`: a real control plane on this machine whose nodes are guests. The end-to-end
//! tests start, kill and shut down the guests themselves, by a [`BootPlan`] that is written for them here.

use std::path::Path;

use super::error::VmError;
use super::guest::Guest;
use super::initramfs::{self, TESTED};
use super::machine::{Console, Emulation, MEMORY_MIB, Plan, Shape};
use super::site::Site;
use super::{PATIENCE, assets::Family};
use nodewarden_guest_job::{BootPlan, CONSOLE, Fault, GUESTS, Job, Layout as CgroupLayout, NODE, ROOT, Task};
use xtask_common::layout::Layout;
use xtask_common::process::{self, CommandError};
use xtask_common::tally::Tally;

/// What the nodes are: cgroup v2, and systemd.
const GUEST: Guest = Guest { family: Family::V6_12, layout: CgroupLayout::Systemd };
/// Part of the names of the tests that start guests.
const TESTS: &str = "_in_guest";

/// Runs the tests whose nodes are guests; all programs are built. `filters` are parts of names, all if none.
///
/// # Errors
/// When something for guests is missing, or the tests can't be started.
pub fn run(layout: &Layout, filters: &[String]) -> Result<Tally, VmError> {
    let site = Site::for_nodes(layout, &[GUEST])?;
    let mut tally = Tally::default();
    if let Some((guest, reason)) = site.missing().next() {
        tally.fail(format!("{guest}: {reason}"));
        return Ok(tally);
    }
    println!("{}", site.prepared.description());
    let path = site.temp().join("guests.json");
    let text = serde_json::to_vec(&boot_plan(&site)?).map_err(VmError::Plan)?;
    std::fs::write(&path, text).map_err(VmError::file("write", &path))?;
    let program = layout.program(TESTED, "nodewarden-e2e");
    let mut command = layout.command(&program);
    command.arg("--agent").arg(layout.program(TESTED, "nodewarden")).args(filters);
    if filters.is_empty() {
        command.arg(TESTS);
    }
    command.env(GUESTS, &path);
    let status = process::each_output_line(&mut command, |line| {
        println!("{line}");
        tally.line(line);
    });
    let status = status.map_err(|error| match error {
        CommandError::Start { source, .. } => VmError::Tests { path: program, source },
        other => VmError::Build(other.into()),
    })?;
    if !status.success() && tally.counts.failed == 0 {
        tally.fail(format!("the tests, which ended with {status}"));
    }
    Ok(tally)
}

fn boot_plan(site: &Site) -> Result<BootPlan, VmError> {
    let kernel = &site.prepared.kernels[&GUEST.family];
    let job = Job {
        layout: GUEST.layout,
        task: Task::Node,
        filters: Vec::new(),
        patience: PATIENCE,
        second_attempts: 0,
        features: false,
        fault: Fault::None,
    };
    let archive = initramfs::initramfs(site.layout, kernel, &site.programs, &job, None, site.temp())?;
    let plan = Plan {
        qemu: &site.prepared.qemu,
        kernel: &kernel.vmlinux,
        initramfs: &archive,
        root: Some(Path::new(ROOT)),
        node: Some(Path::new(NODE)),
        scratch: Some(&site.prepared.scratch),
        memory_mib: MEMORY_MIB,
        shape: Shape::Small,
        emulation: Emulation::default(),
        console: Console::File(Path::new(CONSOLE)),
    };
    let command = plan.command();
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let environment =
        command.get_envs().filter_map(|(name, value)| Some((text(name), text(value?)))).collect();
    let root = site.prepared.root.as_ref().map(|root| root.image.clone()).unwrap_or_default();
    Ok(BootPlan {
        program: command.get_program().into(),
        environment,
        arguments: command.get_args().map(text).collect(),
        root,
        patience: PATIENCE,
    })
}
