//! Entry points for fuzzing: the files of cgroups.

use nodewarden_model::Usage;

use super::control::{Interface, Limits};
use super::{Membership, Version, membership, v1, v2};

/// The usage that the files of a cgroup with these texts show. They are taken in the order in which the agent
/// reads them: those of the version, then the pressures.
pub fn usage<'a>(version: Version, texts: impl Iterator<Item = &'a [u8]>) -> Usage {
    let files = match version {
        Version::V1 => v1::FILES,
        Version::V2 => v2::FILES,
    };
    let mut usage = Usage::default();
    for (spec, text) in files.iter().chain(v2::PRESSURES).zip(texts) {
        (spec.parse)(text, &mut usage);
    }
    usage
}

/// The limits that the files with these texts contain, in the order in which they are read; `None` when one
/// is no value of its file.
pub fn limits<'a>(version: Version, mut texts: impl Iterator<Item = &'a str>) -> Option<Limits> {
    struct Bad;
    impl From<super::control::NoValue> for Bad {
        fn from(_: super::control::NoValue) -> Self {
            Self
        }
    }
    Interface::whole(version).read::<Bad>(|_, _| Ok(texts.next().map(str::to_owned))).ok()
}

/// The lines of `/proc/<pid>/cgroup`.
pub fn memberships(text: &str) -> Vec<Membership> {
    membership::parse_memberships(text)
}
