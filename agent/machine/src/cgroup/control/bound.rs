//! Values that a limit can have.

use std::fmt;

/// An upper limit that may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bound {
    /// This number; the unit is that of the limit.
    At(u64),
    /// No limit: `max` on v2. Greater than every number.
    Max,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(n) => n.fmt(f),
            Self::Max => f.write_str("max"),
        }
    }
}

/// CPU time per period (CFS bandwidth), both in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CpuQuota {
    /// Time that may be used in a period.
    pub quota_us: Bound,
    /// Length of a period.
    pub period_us: u64,
}

/// A huge page size in bytes, shown as the kernel names it in `hugetlb.<size>.max`: `2MB`, `1GB`, `64KB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageSize(pub u64);

impl PageSize {
    /// The size in the name of a directory like `hugepages-2048kB`, as sysfs has one for each size
    /// (Documentation/admin-guide/mm/hugetlbpage.rst); `None` for other names.
    pub fn of_directory(name: &str) -> Option<Self> {
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        kib.checked_mul(1024).filter(|bytes| *bytes > 0).map(Self)
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1 << 30 && n % (1 << 30) == 0 => write!(f, "{}GB", n >> 30),
            n if n >= 1 << 20 && n % (1 << 20) == 0 => write!(f, "{}MB", n >> 20),
            n => write!(f, "{}KB", n >> 10),
        }
    }
}
