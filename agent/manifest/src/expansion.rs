//! Expands `$(NAME)` in commands, arguments and variables (kubernetes third_party/forked/golang/expansion).

/// Replaces each reference by the value that `value` returns for its name. References without a value are
/// kept, and `$$` becomes `$`.
pub fn expand(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = reference(after) {
            match value(name) {
                Some(value) => out.push_str(&value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// The name of a reference `(NAME)`, and the rest of the text.
fn reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('(')?.split_once(')')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn known(name: &str) -> Option<String> {
        match name {
            "A" => Some("1".to_owned()),
            "B" => Some("$(A)".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
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
