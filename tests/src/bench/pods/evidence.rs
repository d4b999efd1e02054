//! Observes from outside when pods start and end.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use super::manifest::CLOCK;
use crate::fixture::PAUSE;
use crate::harness::{Context, Failure};

/// How often to look, for one pod and for many. Many take a second or more on CPUs that are all busy: a look
/// each millisecond took 20 ms of CPU time.
const ONE: Duration = Duration::from_micros(200);
const MANY: Duration = Duration::from_millis(4);
/// Time-outs in seconds, for one pod and for many.
const LIMITS: [u64; 2] = [30, 180];

/// The time of CLOCK_MONOTONIC, which the measured container reads too.
///
/// # Errors
/// Does not happen on Linux.
pub fn now() -> Result<Duration, Failure> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC);
    Ok(time.map_err(|error| Failure::Unexpected(format!("clock_gettime: {error}")))?.into())
}

/// A directory that containers write files into.
pub struct Evidence {
    folder: PathBuf,
    limits: [Duration; 2],
}

impl Evidence {
    /// # Errors
    /// It cannot be created.
    pub fn new(context: &Context) -> Result<Self, Failure> {
        let folder = context.temp.join("evidence");
        let clock = folder.join(CLOCK);
        std::fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
        std::fs::write(&clock, PAUSE).map_err(Failure::file(&clock))?;
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&clock, all).map_err(Failure::file(&clock))?;
        Ok(Self { folder, limits: LIMITS.map(|seconds| context.patiently(seconds)) })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until the container of this pod has recorded the time of its first instruction. Returns that
    /// time.
    ///
    /// # Errors
    /// It does not record it in time.
    pub fn first_instruction(&self, pod: &str) -> Result<Duration, Failure> {
        let path = self.folder.join(pod);
        let text = self.wait(ONE, &format!("{pod} does not start"), || {
            std::fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))
        })?;
        let nanoseconds = text.trim().parse();
        nanoseconds
            .map(Duration::from_nanos)
            .map_err(|error| Failure::Unexpected(format!("{} contains {text:?}: {error}", path.display())))
    }

    /// Waits until each of these pods has started, then removes their files.
    ///
    /// # Errors
    /// One of them does not start in time.
    pub fn all_started(&self, pods: &[String]) -> Result<(), Failure> {
        self.wait_for_all(MANY, pods.iter().map(|pod| self.folder.join(pod)).collect(), true)?;
        pods.iter().for_each(|pod| drop(std::fs::remove_file(self.folder.join(pod))));
        Ok(())
    }

    /// Waits until none of these directories exists.
    ///
    /// # Errors
    /// One of them still exists after the time-out.
    pub fn all_gone(&self, directories: Vec<PathBuf>) -> Result<(), Failure> {
        // A pod's cgroup has a directory in each of at most a dozen hierarchies.
        let between = if directories.len() > 50 { MANY } else { ONE };
        self.wait_for_all(between, directories, false)
    }

    fn wait_for_all(&self, between: Duration, mut paths: Vec<PathBuf>, there: bool) -> Result<(), Failure> {
        let what = if there { "is not there" } else { "is still there" };
        let mut last = PathBuf::new();
        let done = self.wait(between, "", || {
            // Checked one after the other: the last path is checked until it is as wanted.
            while let Some(path) = paths.last() {
                if path.exists() != there {
                    last.clone_from(path);
                    return None;
                }
                paths.pop();
            }
            Some(())
        });
        done.map_err(|failure| Failure::Unexpected(format!("{} {what}{failure}", last.display())))
    }

    fn wait<T>(
        &self,
        between: Duration,
        missing: &str,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, Failure> {
        let limit = self.limits[usize::from(between == MANY)];
        let deadline = Instant::now() + limit;
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                let seconds = limit.as_secs();
                return Err(Failure::Unexpected(format!("{missing} (waited {seconds} s)")));
            }
            std::thread::sleep(between);
        }
    }
}
