//! What os-release(5) says of the system.

/// The name of the system for people (`PRETTY_NAME`); `None` if the text has none.
pub fn pretty_name(text: &str) -> Option<&str> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches(['"', '\'']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_without_its_quotes() {
        for (text, name) in [
            (
                "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
                Some("Debian GNU/Linux 12 (bookworm)"),
            ),
            ("PRETTY_NAME='Fedora Linux 43' \n", Some("Fedora Linux 43")),
            ("PRETTY_NAME=Alpine", Some("Alpine")),
            ("NAME=x", None),
        ] {
            assert_eq!(pretty_name(text), name, "{text}");
        }
    }
}
