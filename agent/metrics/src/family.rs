//! Metric families as constants: name, type, help text and label keys of each are written once, in a table.

/// Type of a family, as in its `# TYPE` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    /// The word in the exposition format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The constant part of a family: name, type, help text and label keys.
#[derive(Debug, PartialEq, Eq)]
pub struct Desc {
    pub name: &'static str,
    pub kind: Kind,
    /// One line, no backslash and no line feed.
    pub help: &'static str,
    /// Label keys that every sample carries (a histogram's `le` aside).
    pub labels: &'static [&'static str],
}

/// Defines an enum of families, one line each: `Variant: Kind "name" LABELS "help";`.
macro_rules! families {
    (
        $(#[$meta:meta])*
        $vis:vis enum $enum:ident {
            $($variant:ident: $kind:ident $name:literal $labels:ident $help:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $enum {
            $(#[doc = concat!("`", $name, "`: ", $help)] $variant,)*
        }

        impl $enum {
            /// Every family of this table.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The constant description of the family.
            pub fn desc(self) -> &'static $crate::family::Desc {
                use $crate::family::{Desc, Kind};
                match self {
                    $(Self::$variant => const {
                        &Desc { name: $name, kind: Kind::$kind, help: $help, labels: $labels }
                    },)*
                }
            }
        }
    };
}
pub(crate) use families;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Desc;
    use crate::{Cadvisor, Own, Resource};

    fn check(table: &[&'static Desc]) {
        let mut names = HashSet::new();
        for desc in table {
            assert!(names.insert(desc.name), "{} is defined twice", desc.name);
            assert!(!desc.help.is_empty() && !desc.help.contains(['\\', '\n']), "help of {}", desc.name);
            let mut keys = HashSet::new();
            assert!(desc.labels.iter().all(|k| keys.insert(k)), "label keys of {}", desc.name);
        }
    }

    #[test]
    fn every_table_is_valid() {
        check(&Cadvisor::ALL.iter().map(|f| f.desc()).collect::<Vec<_>>());
        check(&Resource::ALL.iter().map(|f| f.desc()).collect::<Vec<_>>());
        let own: Vec<_> = Own::ALL.iter().map(|f| f.desc()).collect();
        check(&own);
        for desc in own {
            let ours = ["nodewarden_", "process_", "kubelet_", "prober_"];
            assert!(
                ours.iter().any(|space| desc.name.starts_with(space)),
                "{} has none of the agent's name prefixes",
                desc.name
            );
        }
    }
}
