//! The guests: which kernel with which cgroup layout.

use std::fmt;

use clap::ValueEnum;
use thiserror::Error;

use super::assets::Family;
use nodewarden_guest_job::Layout;

/// One guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Guest {
    /// Its kernel.
    pub family: Family,
    /// Its cgroups.
    pub layout: Layout,
}

/// What the matrix is made of: each kernel on pure v2, the one that has every v1 controller also on v1, and a
/// Debian root with systemd.
pub const MATRIX: [Guest; 6] = [
    Guest { family: Family::V5_10, layout: Layout::V2 },
    Guest { family: Family::V6_1, layout: Layout::V2 },
    Guest { family: Family::V6_1, layout: Layout::V1 },
    Guest { family: Family::V6_12, layout: Layout::V2 },
    Guest { family: Family::V7, layout: Layout::V2 },
    Guest { family: Family::V6_12, layout: Layout::Systemd },
];

/// A kernel on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KernelChoice {
    /// Debian 11's
    #[value(name = "5.10")]
    V5_10,
    /// Debian 12's
    #[value(name = "6.1")]
    V6_1,
    /// Debian 13's
    #[value(name = "6.12")]
    V6_12,
    /// The newest that Debian has
    #[value(name = "7")]
    V7,
    /// The matrix: every kernel
    All,
}

/// A cgroup layout on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutChoice {
    /// One tree with every controller
    V2,
    /// Every controller mounted apart
    V1,
}

/// No guest is like that.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum ChoiceError {
    /// systemd of Debian 13 knows v2 only.
    #[error("a guest with systemd has cgroup v2: leave out --layout v1 or --systemd")]
    SystemdOnV1,
}

/// The guests for the given options. Of `all` kernels it takes those of the matrix; a kernel by its name is
/// booted with whatever layout is asked for.
///
/// # Errors
/// When the options exclude each other.
pub fn choose(
    kernel: KernelChoice,
    layout: Option<LayoutChoice>,
    systemd: bool,
) -> Result<Vec<Guest>, ChoiceError> {
    let layout = match (layout, systemd) {
        (Some(LayoutChoice::V1), true) => return Err(ChoiceError::SystemdOnV1),
        (_, true) => Some(Layout::Systemd),
        (Some(LayoutChoice::V1), false) => Some(Layout::V1),
        (Some(LayoutChoice::V2), false) => Some(Layout::V2),
        (None, false) => None,
    };
    let family = match kernel {
        KernelChoice::V5_10 => Family::V5_10,
        KernelChoice::V6_1 => Family::V6_1,
        KernelChoice::V6_12 => Family::V6_12,
        KernelChoice::V7 => Family::V7,
        KernelChoice::All => {
            let wanted = |guest: &Guest| layout.is_none_or(|layout| guest.layout == layout);
            return Ok(MATRIX.into_iter().filter(wanted).collect());
        }
    };
    Ok(match layout {
        Some(layout) => vec![Guest { family, layout }],
        None => MATRIX.into_iter().filter(|guest| guest.family == family).collect(),
    })
}

impl fmt::Display for Guest {
    /// `6.12 systemd`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} {}", self.family.name(), layout_name(self.layout)))
    }
}

/// As the user names it.
pub fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::V2 => "v2",
        Layout::V1 => "v1",
        Layout::Systemd => "systemd",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_choose_guests() {
        use KernelChoice::{All, V5_10, V6_1, V6_12, V7};
        use LayoutChoice::{V1, V2};
        for (kernel, layout, systemd, expected) in [
            (All, None, false, "5.10 v2, 6.1 v2, 6.1 v1, 6.12 v2, 7 v2, 6.12 systemd"),
            (All, Some(V2), false, "5.10 v2, 6.1 v2, 6.12 v2, 7 v2"),
            (All, Some(V1), false, "6.1 v1"),
            (All, None, true, "6.12 systemd"),
            (V5_10, None, false, "5.10 v2"),
            (V6_1, None, false, "6.1 v2, 6.1 v1"),
            (V6_12, None, false, "6.12 v2, 6.12 systemd"),
            (V7, None, false, "7 v2"),
            (V7, Some(V1), false, "7 v1"),
            (V7, Some(V2), true, "7 systemd"),
        ] {
            let names =
                choose(kernel, layout, systemd).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(names.join(", "), expected, "{kernel:?} {layout:?} {systemd}");
        }
        assert_eq!(choose(All, Some(V1), true), Err(ChoiceError::SystemdOnV1));
    }
}
