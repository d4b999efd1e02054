//! Expands `$(NAME)` in commands, arguments and variables (kubernetes third_party/forked/golang/expansion),
//! with a bound: a variable that refers twice to the one before doubles its length, so 40 short lines could
//! ask for a terabyte.

/// What the texts of one container may have together after expansion, in bytes: the kernel passes at most
/// three quarters of 8 MiB as arguments and environment to a program (`bprm_stack_limits` in fs/exec.c).
pub const MAX_EXPANDED: usize = 6 << 20;

/// The texts have more bytes together than they may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} bytes after expansion of $(NAME)")]
pub struct TooLong {
    /// What they may have.
    pub limit: usize,
}

/// Expands texts that have a bound together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expander {
    limit: usize,
    /// Bytes that further texts may have.
    left: usize,
}

impl Expander {
    /// For texts that may have `limit` bytes together.
    pub fn new(limit: usize) -> Self {
        Self { limit, left: limit }
    }

    /// Replaces references by their values; unknown references are kept, `$$` becomes `$`.
    ///
    /// # Errors
    /// The texts have too many bytes.
    pub fn expand<'a>(
        &mut self,
        text: &str,
        value: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<String, TooLong> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            self.push(&mut out, &rest[..at])?;
            let after = &rest[at + 1..];
            if let Some(after) = after.strip_prefix('$') {
                self.push(&mut out, "$")?;
                rest = after;
            } else if let Some((name, after)) = reference(after) {
                match value(name) {
                    Some(value) => self.push(&mut out, value)?,
                    None => ["$(", name, ")"].iter().try_for_each(|part| self.push(&mut out, part))?,
                }
                rest = after;
            } else {
                self.push(&mut out, "$")?;
                rest = after;
            }
        }
        self.push(&mut out, rest)?;
        Ok(out)
    }

    /// Counts a text that is not expanded.
    ///
    /// # Errors
    /// The texts have too many bytes.
    pub fn count(&mut self, text: &str) -> Result<(), TooLong> {
        self.left = self.left.checked_sub(text.len()).ok_or(TooLong { limit: self.limit })?;
        Ok(())
    }

    fn push(&mut self, out: &mut String, part: &str) -> Result<(), TooLong> {
        self.count(part)?;
        out.push_str(part);
        Ok(())
    }
}

/// The name of a reference `(NAME)`, and the rest of the text.
fn reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('(')?.split_once(')')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn known(name: &str) -> Option<&'static str> {
        match name {
            "A" => Some("1"),
            "B" => Some("$(A)"),
            "EMPTY" => Some(""),
            _ => None,
        }
    }

    fn expand(text: &str, value: impl Fn(&str) -> Option<&'static str>) -> String {
        Expander::new(MAX_EXPANDED).expand(text, value).unwrap()
    }

    /// The cases of the kubelet's own test, and more.
    #[test]
    fn references_are_expanded_as_in_the_kubelet() {
        for (text, expanded) in [
            ("", ""),
            ("plain", "plain"),
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            // Not expanded twice.
            ("$(B)", "$(A)"),
            ("$(EMPTY)|", "|"),
            ("$(NO)", "$(NO)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$$$$(A)", "$$(A)"),
            ("$$", "$"),
            ("$", "$"),
            ("a$", "a$"),
            ("$A", "$A"),
            ("${A}", "${A}"),
            ("$(A", "$(A"),
            ("$(A$(A)", "$(A$(A)"),
            ("$()", "$()"),
            ("$($(A))", "$($(A))"),
            ("$ä$(A)", "$ä1"),
            ("foo$(A)$bar$(NO)", "foo1$bar$(NO)"),
        ] {
            assert_eq!(expand(text, known), expanded, "{text}");
        }
    }

    #[test]
    fn texts_have_a_bound_together() {
        let long = "x".repeat(MAX_EXPANDED / 2);
        let mut expander = Expander::new(MAX_EXPANDED);
        let value = |_: &str| Some(long.as_str());
        assert_eq!(expander.expand("$(A)$(A)", value).map(|text| text.len()), Ok(MAX_EXPANDED));
        assert_eq!(expander.expand("", value).as_deref(), Ok(""));
        assert_eq!(expander.expand("y", value), Err(TooLong { limit: MAX_EXPANDED }));
        assert_eq!(
            Expander::new(MAX_EXPANDED).expand(&"$(A)".repeat(1 << 20), value),
            Err(TooLong { limit: MAX_EXPANDED })
        );
        let said = TooLong { limit: MAX_EXPANDED }.to_string();
        assert_eq!(said, "more than 6291456 bytes after expansion of $(NAME)");
    }

    proptest! {
        #[test]
        fn without_a_dollar_nothing_changes(text in "[^$]*") {
            prop_assert_eq!(expand(&text, known), text);
        }

        #[test]
        fn escaped_text_is_kept(text in "\\PC*") {
            prop_assert_eq!(expand(&text.replace('$', "$$"), known), text);
        }
    }
}
