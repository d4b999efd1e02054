//! Breaks a text into lines. Pure.

/// Lines of at most `width` characters, broken at spaces where there are any; all but the first begin with
/// `indent` spaces.
pub fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let width = width.max(1);
    // On a narrow screen nothing is lost to the indent.
    let indent = " ".repeat(if indent * 2 < width { indent } else { 0 });
    let mut lines = Vec::new();
    let all: Vec<char> = text.chars().collect();
    let mut rest = all.as_slice();
    loop {
        let start = if lines.is_empty() { "" } else { indent.as_str() };
        let room = width - start.len();
        if rest.len() <= room {
            lines.push(format!("{start}{}", rest.iter().collect::<String>()));
            return lines;
        }
        let lead = rest.iter().take_while(|&&c| c == ' ').count();
        let space = (lead + 1..=room).rev().find(|&at| rest[at] == ' ');
        let at = space.unwrap_or(room);
        lines.push(format!("{start}{}", rest[..at].iter().collect::<String>()));
        rest = &rest[at + usize::from(space.is_some())..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_end_at_spaces() {
        assert_eq!(wrap("a bc def", 20, 2), ["a bc def"]);
        assert_eq!(wrap("a bc def g", 5, 2), ["a bc", "  def", "  g"]);
        assert_eq!(wrap("abcdefgh", 3, 0), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 3, 0), [""]);
        // The indent at the start of a text is no place to break it.
        assert_eq!(wrap("  abc def", 5, 0), ["  abc", "def"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_too_wide(text in "[a-zé/ ]{0,80}", width in 0usize..40, indent in 0usize..12) {
            let lines = wrap(&text, width, indent);
            prop_assert!(lines.iter().all(|line| line.chars().count() <= width.max(1)), "{lines:?}");
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
