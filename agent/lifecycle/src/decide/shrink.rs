//! Whether a memory limit may be lowered now (KEP-1287, "Memory Limit Decreases"; kubelet
//! `validateMemoryResizeAction` of pkg/kubelet/kuberuntime).
//!
//! cgroup v2 kills when a limit below what is in use is written, and v1 refuses it. Between the look and the
//! write the use may still grow: as in the kubelet, this is a best effort.

/// A memory limit that is to be changed, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryChange<'a> {
    /// The container; `None` for the pod as a whole.
    pub container: Option<&'a str>,
    /// In force; `None`: there is none.
    pub from: Option<u64>,
    /// Wanted; `None`: none.
    pub to: Option<u64>,
    /// In use now; `None` if that is not known.
    pub used: Option<u64>,
}

impl MemoryChange<'_> {
    /// Whether the limit is lowered.
    fn is_decrease(&self) -> bool {
        self.to.is_some_and(|to| self.from.is_none_or(|from| to < from))
    }

    /// Why the limit is not lowered, in the kubelet's words.
    fn refusal(&self) -> Option<String> {
        let to = self.to.filter(|_| self.is_decrease())?;
        let of = self.container.map_or_else(|| "pod".to_owned(), |name| format!("container {name:?}"));
        match self.used {
            None => Some(format!("missing {of} memory usage")),
            Some(used) if used >= to => {
                Some(format!("attempting to set {of} memory limit ({to}) below current usage ({used})"))
            }
            Some(_) => None,
        }
    }
}

/// Why these limits cannot be set now: one of them is lowered to what is in use or less. `None` if all can.
pub fn refused(changes: &[MemoryChange<'_>]) -> Option<String> {
    let refusals: Vec<String> = changes.iter().filter_map(MemoryChange::refusal).collect();
    // As the errors of Go's `NewAggregate`.
    match &refusals[..] {
        [] => None,
        [one] => Some(format!("cannot decrease memory limits: {one}")),
        all => Some(format!("cannot decrease memory limits: [{}]", all.join(", "))),
    }
}

/// Whether two messages differ in numbers alone, as those of the same refusal a moment later do.
pub fn same_but_for_numbers(one: &str, other: &str) -> bool {
    let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    words(one) == words(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(
        container: Option<&str>,
        from: Option<u64>,
        to: Option<u64>,
        used: Option<u64>,
    ) -> MemoryChange<'_> {
        MemoryChange { container, from, to, used }
    }

    #[test]
    fn a_limit_is_lowered_only_above_what_is_used() {
        for (from, to, used, is_refused) in [
            (Some(100), Some(50), Some(49), false),
            (Some(100), Some(50), Some(50), true),
            (Some(100), Some(50), Some(99), true),
            // None before is more than any.
            (None, Some(50), Some(51), true),
            (None, Some(50), Some(1), false),
            // What is used is not known.
            (Some(100), Some(50), None, true),
            // Not lowered.
            (Some(50), Some(50), Some(50), false),
            (Some(50), Some(100), Some(50), false),
            (Some(50), Some(100), None, false),
            (Some(50), None, Some(50), false),
            (None, None, None, false),
        ] {
            let found = refused(&[change(Some("c"), from, to, used)]);
            assert_eq!(found.is_some(), is_refused, "{from:?} {to:?} {used:?}");
        }
    }

    #[test]
    fn the_refusal_is_in_the_words_of_the_kubelet() {
        let container = |used| change(Some("c"), Some(400), Some(100), used);
        let pod = |used| change(None, Some(400), Some(100), used);
        let refused = |changes: &[MemoryChange<'_>]| refused(changes).unwrap_or_default();
        assert_eq!(
            refused(&[pod(Some(50)), container(Some(200))]),
            "cannot decrease memory limits: attempting to set container \"c\" memory limit (100) below current \
             usage (200)"
        );
        assert_eq!(
            refused(&[pod(Some(300)), container(Some(200))]),
            "cannot decrease memory limits: [attempting to set pod memory limit (100) below current usage (300), \
             attempting to set container \"c\" memory limit (100) below current usage (200)]"
        );
        assert_eq!(refused(&[pod(None)]), "cannot decrease memory limits: missing pod memory usage");
        assert_eq!(refused(&[]), "");
    }

    #[test]
    fn numbers_make_no_other_message() {
        assert!(same_but_for_numbers("limit (100) below (7)", "limit (100) below (12345)"));
        assert!(!same_but_for_numbers("limit (100) below (7)", "limit (100) above (7)"));
    }
}
