//! Tries which files a child cgroup has and what the kernel supports.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use aya::Btf;
use nix::sys::signal::Signal;

use super::row::{FileFound, On, Topic, Tried};
use crate::fixture::{AttachPoint, ExclusiveCpu, Group, Layout, TestRoot, Worker, run_count};
use crate::harness::{Context, Failure, lower_own_oom_score};
use crate::worker::report::Took;

/// The controllers that the agent uses, by their names on v2 and on v1.
const CONTROLLERS: [(&str, &str); 6] = [
    ("cpu", "cpu"),
    ("memory", "memory"),
    ("io", "blkio"),
    ("pids", "pids"),
    ("hugetlb", "hugetlb"),
    ("cpuset", "cpuset"),
];

/// On which version of cgroups each controller is, if any.
pub fn controllers(layout: &Layout) -> Vec<(&'static str, Option<On>)> {
    CONTROLLERS
        .into_iter()
        .map(|(v2, v1)| {
            let unified = layout.unified().is_some_and(|h| h.controllers.iter().any(|c| c == v2));
            let on = match (unified, layout.controller(v1)) {
                (true, _) => Some(On::V2),
                (false, Some(hierarchy)) if !hierarchy.v2 => Some(On::V1),
                _ => None,
            };
            (v2, on)
        })
        .collect()
}

/// Files of a child cgroup, each one actually read or written.
pub fn files(context: &Context) -> Result<Vec<FileFound>, Failure> {
    let root = TestRoot::new(context)?;
    let group = root.child("files")?;
    let unified = |name: &str| context.layout.unified().map(|h| group.directory(h).join(name));
    let v1_memory = |name: &str| {
        let hierarchy = context.layout.controller("memory").filter(|h| !h.v2)?;
        group.directory(hierarchy).join(name).exists().then(|| format!("{name} of cgroup v1"))
    };
    let whole = |name: &str| {
        let path = format!("/proc/pressure/{name}");
        std::fs::read(&path).is_ok().then(|| format!("{path}, of the whole machine"))
    };
    let read = |name| readable(unified(name).as_deref());
    let seen = |name, itself, instead| FileFound { name, itself, instead };
    Ok(vec![
        seen("memory.peak", read("memory.peak"), v1_memory("memory.max_usage_in_bytes")),
        seen("memory.events.local", read("memory.events.local"), v1_memory("memory.oom_control")),
        seen(
            "memory.reclaim",
            reclaims(unified("memory.reclaim").as_deref()),
            v1_memory("memory.force_empty"),
        ),
        seen(
            "cgroup.kill",
            kills(context, &group, unified("cgroup.kill").as_deref())?,
            Some("a signal to each process of cgroup.procs".into()),
        ),
        seen("PSI of cpu", read("cpu.pressure"), whole("cpu")),
        seen("PSI of memory", read("memory.pressure"), whole("memory")),
        seen("PSI of io", read("io.pressure"), whole("io")),
    ])
}

const NO_UNIFIED: &str = "no cgroup v2 tree is mounted";

/// Tries to read a file.
fn readable(path: Option<&Path>) -> Tried {
    let path = path.ok_or(NO_UNIFIED)?;
    std::fs::read(path).map(|_| "read".to_owned()).map_err(|error| file_error(path, &error))
}

/// Tries to reclaim memory through `memory.reclaim`.
fn reclaims(path: Option<&Path>) -> Tried {
    let path = path.ok_or(NO_UNIFIED)?;
    match File::options().write(true).open(path).and_then(|mut file| file.write_all(b"4096")) {
        Ok(()) => Ok("written".into()),
        // EAGAIN: less was reclaimed than asked for, as in this empty cgroup. The file works.
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok("written".into()),
        Err(error) => Err(file_error(path, &error)),
    }
}

/// Tries to kill a process through `cgroup.kill`.
fn kills(context: &Context, group: &Group, path: Option<&Path>) -> Result<Tried, Failure> {
    let Some(path) = path else { return Ok(Err(NO_UNIFIED.into())) };
    // Opened without O_CREAT: cgroupfs would refuse with EACCES where the file is not there.
    let file = match File::options().write(true).open(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(file_error(path, &error))),
    };
    let mut worker = Worker::spawn(context, Some(group), &["sleep"])?;
    if let Err(error) = (&file).write_all(b"1") {
        return Ok(Err(file_error(path, &error)));
    }
    let status = worker.wait(context.patiently(5))?;
    Ok(if status.signal() == Some(Signal::SIGKILL as i32) {
        Ok("killed a process".into())
    } else {
        Err(format!("the process ended with {status}"))
    })
}

/// An error with the name of its file.
fn file_error(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.file_name().unwrap_or_default().to_string_lossy())
}

/// What enforcement needs: each kind of eBPF program is loaded, attached and run.
pub fn abilities(context: &Context) -> Result<Vec<(&'static str, Tried)>, Failure> {
    let btf = Btf::from_sys_fs().map_err(|error| format!("no BTF: {error}"));
    let open = || drop(File::open("/proc/self/stat"));
    Ok(vec![
        ("fentry", ran(AttachPoint::Fentry("vfs_open"), &btf, open)),
        ("BPF LSM", ran(AttachPoint::Lsm("bpf_lsm_file_open"), &btf, open)),
        ("kprobe", ran(AttachPoint::Kprobe("vfs_open"), &btf, open)),
        ("cgroup_device programs", device(context, &btf)?),
        ("lowering oom_score_adj", lower_own_oom_score().map(|()| "lowered and put back".into())),
    ])
}

/// The topic that the agent loads only while a container has CPUs for itself: tried on the machine's last
/// CPU.
///
/// # Errors
/// The cgroup for it cannot be made.
pub fn exclusive_cpus(context: &Context) -> Result<Topic, Failure> {
    let root = TestRoot::named(context, "-exclusive")?;
    let owner = root.child("owner")?;
    let tried = ExclusiveCpu::load(false).and_then(|mut cpu| {
        cpu.give(Some(&owner))?;
        let status = cpu.status().1;
        cpu.give(None)?;
        Ok(status)
    });
    let (state, reason) = match tried {
        Ok(status) => (status.state.name().to_owned(), status.reason),
        Err(reason) => ("off".into(), reason),
    };
    Ok(Topic { name: "exclusive_cpus".into(), state, reason })
}

/// Whether a program attached at `point` runs during `trigger`.
fn ran(point: AttachPoint<'_>, btf: &Result<Btf, String>, trigger: impl FnOnce()) -> Tried {
    match run_count(point, btf.as_ref().map_err(Clone::clone)?, trigger) {
        Ok(0) => Err("attached, but it did not run".into()),
        Ok(_) => Ok("attached and ran".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether a device program of a cgroup runs when a process in it opens a device.
fn device(context: &Context, btf: &Result<Btf, String>) -> Result<Tried, Failure> {
    let Some(unified) = context.layout.unified() else { return Ok(Err(NO_UNIFIED.into())) };
    let root = TestRoot::named(context, "-devices")?;
    let group = root.child("opens")?;
    let mut worker = Worker::spawn(context, Some(&group), &["read-file", "/dev/null", "1"])?;
    let mut opened = Ok(());
    let tried = ran(AttachPoint::CgroupDevice(&group.directory(unified)), btf, || {
        opened = worker.go().and_then(|()| worker.report::<Took>(context.patiently(5)).map(drop));
    });
    opened?;
    Ok(tried)
}
