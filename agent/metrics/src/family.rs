//! A metric family as a constant: name, type, help and label keys are in one table and nowhere else.

pub(crate) use nodewarden_model::family::{Desc, Kind};

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
        #[allow(rustdoc::broken_intra_doc_links, reason = "a help text may begin with [STABLE]")]
        $vis enum $enum {
            $(#[doc = concat!("`", $name, "`: ", $help)] $variant,)*
        }

        impl $enum {
            /// Every family of this table, in the order of its definition.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Name, type, help and label keys of the family.
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
    use crate::{Cadvisor, Own, Resource, Sli};

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
        check(&Sli::ALL.iter().map(|f| f.desc()).collect::<Vec<_>>());
        let topics = nodewarden_model::Topic::ALL.into_iter().flat_map(|topic| topic.spec().families);
        let own: Vec<_> = Own::ALL.iter().map(|f| f.desc()).chain(topics.map(|f| &f.desc)).collect();
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
