//! Rotation of container logs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::json;

use super::NEEDS;
use super::fixture::PodFixture;
use super::manifest::{STAY, one};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("pod_logs_are_rotated", rotated).timeout(150).needs(NEEDS)];

/// Bytes at which a log is rotated.
const MAX_BYTES: u64 = 64 << 10;
/// Files of a log that are kept.
const FILES: usize = 3;

/// Names of a directory's files.
fn names(folder: &Path) -> Result<BTreeSet<String>, Failure> {
    let entries = fs::read_dir(folder).map_err(Failure::file(folder))?.flatten();
    Ok(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// The files of a log by name, as text, decompressed if need be; read again if a file was renamed meanwhile.
fn files(folder: &Path) -> Result<BTreeMap<String, String>, Failure> {
    loop {
        let before = names(folder)?;
        let found = read(folder, &before);
        if names(folder)? == before {
            return Ok(found);
        }
    }
}

/// Reads those of the files that can be read.
fn read(folder: &Path, names: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for name in names {
        let Ok(mut file) = File::open(folder.join(name)) else { continue };
        let mut text = String::new();
        let read = match name.ends_with(".gz") {
            true => GzDecoder::new(file).read_to_string(&mut text),
            false => file.read_to_string(&mut text),
        };
        if read.is_ok() && !name.ends_with(".tmp") {
            found.insert(name.clone(), text);
        }
    }
    found
}

/// The numbers at the start of each line: `<time> stdout F <number> …`.
fn numbers(text: &str) -> Vec<u64> {
    text.lines().filter_map(|line| line.split(' ').nth(3)?.parse().ok()).collect()
}

/// A large log is rotated and compressed, only the newest files are kept, and no line in between is lost,
/// also when the agent is killed during a rotation.
fn rotated(context: &Context) -> Result<(), Failure> {
    let lines = format!(
        "containerLogMaxSize: '{MAX_BYTES}'\ncontainerLogMaxFiles: {FILES}\ncontainerLogMonitorInterval: 3s\n"
    );
    let mut fixture = PodFixture::with_config(context, &lines, "")?;
    let filling = "x".repeat(1000);
    let script =
        format!("i=0; trap 'exit 0' TERM; while true; do echo $i {filling}; i=$((i+1)); sleep 0.02; done");
    fixture
        .put([one("writes", &script, json!({})), one("quiet", &format!("echo done; {STAY}"), json!({}))])?;
    let (writes, quiet) = (fixture.wait_up("writes")?, fixture.wait_up("quiet")?);
    let folder = fixture.log_dir(&writes).join("c");
    let mut most = 0;
    let is_whole = || {
        let found = files(&folder)?;
        most = most.max(found.len());
        let begun = found.values().map(|text| numbers(text)).flat_map(|own| own.first().copied()).min();
        let compressed = found.keys().filter(|name| name.ends_with(".gz")).count();
        // The first files are removed, and one of the rest is compressed.
        Ok((begun > Some(0) && compressed > 0 && found.len() == FILES).then_some(found))
    };
    let found = eventually(context.patiently(60), "the log was not rotated often enough", is_whole)?;
    ensure!(most <= FILES + 1, "a log had {most} files");
    // `0.log` is the newest; the other names end with a time and sort as text.
    let mut all: Vec<u64> =
        found.iter().filter(|(name, _)| *name != "0.log").flat_map(|(_, text)| numbers(text)).collect();
    all.extend(numbers(found.get("0.log").map(String::as_str).unwrap_or_default()));
    let gap = all.windows(2).find(|pair| pair[1] != pair[0] + 1);
    ensure!(gap.is_none(), "lines are missing among {}: {gap:?}", all.len());
    let shown = fixture.command(&["logs", "writes"])?;
    let shown: Vec<u64> = String::from_utf8_lossy(&shown.stdout)
        .lines()
        .filter_map(|line| line.split(' ').next()?.parse().ok())
        .collect();
    let gap = shown.windows(2).find(|pair| pair[1] != pair[0] + 1);
    ensure!(gap.is_none() && shown.last() >= all.last(), "`logs` shows {} lines, gap {gap:?}", shown.len());
    println!("{REPORTED}{} lines in {} files, {most} at most", all.len(), found.len());
    let other = fixture.log_dir(&quiet).join("c");
    ensure_eq!(files(&other)?.into_keys().collect::<Vec<_>>(), ["0.log"], "logs of a quiet pod");

    // As if the agent was killed after it had renamed a log and before it asked the runtime to reopen it.
    fixture.kill_agent()?;
    let (path, moved) = (folder.join("0.log"), folder.join("0.log.20991231-235959"));
    fs::rename(&path, &moved).map_err(Failure::file(&path))?;
    fixture.start_agent()?;
    eventually(context.patiently(20), "the container does not write to a new file", || {
        Ok(fs::metadata(&path).is_ok_and(|found| found.len() > 0).then_some(()))
    })?;
    let (before, after) = (files(&folder)?, fs::read_to_string(&path).map_err(Failure::file(&path))?);
    let last = before.get("0.log.20991231-235959").map(|text| numbers(text)).unwrap_or_default();
    ensure_eq!(
        numbers(&after).first().copied(),
        last.last().map(|n| n + 1),
        "the first line of the new file"
    );
    ensure_eq!(fixture.wait_up("writes")?.container("c")?.restarts(), 0, "restarts");
    fixture.remove("writes")?;
    fixture.wait_gone(&["writes"])?;
    fixture.finish()
}
