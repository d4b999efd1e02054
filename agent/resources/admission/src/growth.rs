//! Whether a running pod may have other resources now (KEP-1287; kubelet `canResizePod` of
//! pkg/kubelet/allocation).
//!
//! Only resources that grow are checked; a pod may always release some.

use super::Refusal;
use super::amounts::{Amounts, amount};
use nodewarden_model::ResizePending;

/// Why a running pod may not have more resources. It keeps what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoGrowth {
    /// The node would not have enough even without other pods.
    Infeasible {
        /// Name of the resource.
        resource: String,
        /// What the pod requests.
        requested: i64,
        /// What pods can have together.
        capacity: i64,
    },
    /// It cannot be changed while the pod runs.
    Excluded(&'static str),
    /// Other pods hold it now.
    Deferred(Refusal),
}

impl NoGrowth {
    /// How it is shown, in the kubelet's words.
    pub fn pending(&self) -> ResizePending {
        match self {
            Self::Infeasible { resource, requested, capacity } => ResizePending::Infeasible(format!(
                "Node didn't have enough capacity: {resource}, requested: {requested}, capacity: {capacity}"
            )),
            Self::Excluded(why) => ResizePending::Infeasible((*why).to_owned()),
            Self::Deferred(refusal) => ResizePending::Deferred(refusal.to_string()),
        }
    }
}

/// The first of the wanted amounts that a pod that holds `held` may not have. `capacity` is `None` where it
/// is not known; `used` is what others hold. Infeasible requests come before deferred ones.
pub fn refused(
    held: &Amounts,
    wants: &Amounts,
    capacity: impl Fn(&str) -> Option<i64>,
    used: impl Fn(&str) -> i64,
) -> Option<NoGrowth> {
    let grows = || wants.iter().filter(|(name, wanted)| **wanted > amount(held, name));
    let infeasible = grows().find_map(|(name, wanted)| {
        let capacity = capacity(name).filter(|capacity| wanted > capacity)?;
        Some(NoGrowth::Infeasible { resource: name.clone(), requested: *wanted, capacity })
    });
    infeasible.or_else(|| {
        grows().find_map(|(name, wanted)| {
            let (capacity, used) = (capacity(name)?, used(name));
            let (resource, requested) = (name.clone(), *wanted);
            (*wanted > capacity - used).then_some(NoGrowth::Deferred(Refusal::Insufficient {
                resource,
                requested,
                used,
                capacity,
            }))
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use nodewarden_manifest::names::{CPU, MEMORY};

    fn of(cpu: i64, memory: i64) -> Amounts {
        [(CPU, cpu), (MEMORY, memory)].map(|(name, n)| (name.to_owned(), n)).into()
    }

    #[test]
    fn infeasible_deferred_and_granted_requests() {
        let capacity = of(10, 20);
        let asked = |held: Amounts, wants: Amounts, others: Amounts| {
            let found =
                refused(&held, &wants, |name| capacity.get(name).copied(), |name| amount(&others, name));
            found.map(|no| no.pending().to_string())
        };
        assert_eq!(asked(of(1, 1), of(10, 20), of(0, 0)), None);
        assert_eq!(
            asked(of(1, 1), of(5, 21), of(9, 9)).as_deref(),
            Some("Infeasible: Node didn't have enough capacity: memory, requested: 21, capacity: 20")
        );
        assert_eq!(
            asked(of(1, 1), of(5, 1), of(6, 19)).as_deref(),
            Some("Deferred: Node didn't have enough resource: cpu, requested: 5, used: 6, capacity: 10")
        );
        assert_eq!(asked(of(30, 1), of(20, 1), of(9, 9)), None, "it gives back, if not enough");
        assert_eq!(
            asked(of(3, 1), of(3, 2), of(9, 9)),
            None,
            "its CPU is not touched, beyond what there is or not"
        );
        assert_eq!(
            asked(Amounts::new(), Amounts::from([("a/b".to_owned(), 7)]), of(0, 0)),
            None,
            "the capacity is not known"
        );
    }

    proptest! {
        /// A granted request fits together with the others, and a deferred one would fit without them.
        #[test]
        fn granted_fits(held in (0i64..20, 0i64..20), wants in (0i64..20, 0i64..20), others in (0i64..20, 0i64..20)) {
            let (held, wants, others) = (of(held.0, held.1), of(wants.0, wants.1), of(others.0, others.1));
            let capacity = of(10, 12);
            let found = refused(&held, &wants, |name| capacity.get(name).copied(), |name| amount(&others, name));
            let names = [CPU, MEMORY];
            let grows = |name: &&&str| amount(&wants, name) > amount(&held, name);
            let fits = |name: &&str, others: &Amounts| amount(&wants, name) + amount(others, name) <= amount(&capacity, name);
            match found {
                None => prop_assert!(names.iter().filter(grows).all(|name| fits(name, &others))),
                Some(NoGrowth::Deferred(_)) => {
                    prop_assert!(names.iter().filter(grows).all(|name| fits(name, &Amounts::new())));
                    prop_assert!(!names.iter().filter(grows).all(|name| fits(name, &others)));
                }
                Some(NoGrowth::Excluded(why)) => prop_assert!(false, "{why}"),
                Some(NoGrowth::Infeasible { resource, .. }) => {
                    prop_assert!(amount(&wants, &resource) > amount(&capacity, &resource));
                }
            }
        }
    }
}
