//! Reads the limits of a cgroup from its files.

use super::write::hugetlb_files;
use super::{Interface, PageSize};
use crate::cgroup::control::{Bound, CpuQuota, CpuShare, Limits};
use crate::cgroup::{Controller, Version};
use crate::cpu_list::CpuList;

/// A file with content that the kernel does not write there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoValue {
    /// The file's controller.
    pub controller: Controller,
    /// The file's name.
    pub file: String,
    /// What was read from it.
    pub text: String,
}

impl Interface {
    /// Every limit that the files contain. `file` reads one of them: `Ok(None)` where there is none.
    ///
    /// A huge page size whose limits of use and of reservation differ reads as `At(u64::MAX)`, which no
    /// cgroup can be set to: it is neither limit, so a comparison sets both again.
    ///
    /// # Errors
    /// What `file` could not read, and text that is no value of its file.
    pub fn read<E: From<NoValue>>(
        &self,
        file: impl FnMut(Controller, &str) -> Result<Option<String>, E>,
    ) -> Result<Limits, E> {
        let mut files = Files { interface: self, file };
        let mut limits = Limits::default();
        files.cpu(&mut limits)?;
        limits.cpuset_cpus = files.value(Controller::Cpuset, "cpuset.cpus", |_, text| {
            CpuList::parse_cpuset(text).ok().map(|list| list.to_string())
        })?;
        match self.version(Controller::Memory) {
            None => {}
            Some(Version::V1) => {
                limits.memory_max = files.memory("memory.limit_in_bytes")?;
                limits.memsw_max = files.memory("memory.memsw.limit_in_bytes")?;
            }
            Some(Version::V2) => files.memory_v2(&mut limits)?,
        }
        limits.pids_max = files.value(Controller::Pids, "pids.max", |_, text| bound(text))?;
        let mut of_size = |size: &PageSize| Ok(files.hugetlb(*size)?.map(|found| (*size, found)));
        let sizes = self.huge_pages.iter().filter_map(|size| of_size(size).transpose());
        limits.hugetlb = sizes.collect::<Result<_, E>>()?;
        Ok(limits)
    }
}

struct Files<'a, F> {
    interface: &'a Interface,
    file: F,
}

impl<F, E> Files<'_, F>
where
    F: FnMut(Controller, &str) -> Result<Option<String>, E>,
    E: From<NoValue>,
{
    fn value<T>(
        &mut self,
        controller: Controller,
        file: &str,
        parse: impl FnOnce(&Interface, &str) -> Option<T>,
    ) -> Result<Option<T>, E> {
        if self.interface.version(controller).is_none() {
            return Ok(None);
        }
        let Some(text) = (self.file)(controller, file)? else { return Ok(None) };
        let text = text.trim();
        match parse(self.interface, text) {
            Some(value) => Ok(Some(value)),
            None => Err(NoValue { controller, file: file.to_owned(), text: text.to_owned() }.into()),
        }
    }

    fn cpu(&mut self, limits: &mut Limits) -> Result<(), E> {
        limits.cpu_idle = self.value(Controller::Cpu, "cpu.idle", |_, text| flag(text))?;
        match self.interface.version(Controller::Cpu) {
            None => {}
            Some(Version::V1) => {
                limits.cpu = self.value(Controller::Cpu, "cpu.shares", |_, text| {
                    text.parse().ok().map(CpuShare::Shares)
                })?;
                let quota = self.value(Controller::Cpu, "cpu.cfs_quota_us", |_, text| bound(text))?;
                let period = self.value(Controller::Cpu, "cpu.cfs_period_us", |_, text| text.parse().ok())?;
                limits.cpu_quota =
                    quota.zip(period).map(|(quota_us, period_us)| CpuQuota { quota_us, period_us });
            }
            Some(Version::V2) => {
                limits.cpu = self.value(Controller::Cpu, "cpu.weight", |_, text| {
                    text.parse().ok().map(CpuShare::Weight)
                })?;
                limits.cpu_quota = self.value(Controller::Cpu, "cpu.max", |_, text| {
                    let (quota, period) = text.split_once(' ')?;
                    Some(CpuQuota { quota_us: bound(quota)?, period_us: period.parse().ok()? })
                })?;
            }
        }
        Ok(())
    }

    fn memory_v2(&mut self, limits: &mut Limits) -> Result<(), E> {
        limits.memory_max = self.memory("memory.max")?;
        limits.memory_min = self.memory("memory.min")?.map(number);
        limits.memory_low = self.memory("memory.low")?.map(number);
        limits.memory_high = self.memory("memory.high")?;
        limits.swap_max = self.memory("memory.swap.max")?;
        limits.oom_group = self.value(Controller::Memory, "memory.oom.group", |_, text| flag(text))?;
        Ok(())
    }

    fn memory(&mut self, file: &str) -> Result<Option<Bound>, E> {
        self.value(Controller::Memory, file, |i, text| Some(i.settled_bytes(bound(text)?, i.page_bytes)))
    }

    fn hugetlb(&mut self, size: PageSize) -> Result<Option<Bound>, E> {
        let Some(version) = self.interface.version(Controller::Hugetlb) else { return Ok(None) };
        let mut read = |file: &str| {
            self.value(Controller::Hugetlb, &format!("hugetlb.{size}.{file}"), |i, text| {
                Some(i.settled_bytes(bound(text)?, size.0))
            })
        };
        let [used, reserved] = hugetlb_files(version);
        Ok(match (read(used)?, read(reserved)?) {
            (Some(used), Some(reserved)) if used != reserved => Some(Bound::At(u64::MAX)),
            (used, _) => used,
        })
    }
}

/// `max`, and on v1 -1, for no limit.
fn bound(text: &str) -> Option<Bound> {
    match text {
        "max" | "-1" => Some(Bound::Max),
        _ => text.parse().ok().map(Bound::At),
    }
}

fn number(bound: Bound) -> u64 {
    match bound {
        Bound::At(n) => n,
        Bound::Max => u64::MAX,
    }
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}
