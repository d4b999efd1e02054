//! The documents of the repository (README.md, docs and their like) as text whose commands and links tests
//! check.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The documents beside the folder `docs`.
const AT_THE_ROOT: [&str; 4] = ["CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"];
/// Says what was: its commands and links are those of the time.
const HISTORY: &str = "CHANGELOG.md";

/// The repository as it was when this was compiled.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its path in the repository.
    pub path: String,
    /// Its Markdown.
    pub text: String,
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The document and the line, as `docs/manage.md:12`.
    pub place: String,
    /// The command line, the code or the target of a link.
    pub text: String,
}

/// Every document of the repository, ordered by path.
///
/// # Errors
/// When one cannot be read.
pub fn read(root: &Path) -> io::Result<Vec<Document>> {
    let mut paths: Vec<String> = AT_THE_ROOT.map(str::to_owned).to_vec();
    for entry in fs::read_dir(root.join("docs"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            paths.push(format!("docs/{name}"));
        }
    }
    paths.sort();
    let document = |path: String| Ok(Document { text: fs::read_to_string(root.join(&path))?, path });
    paths.into_iter().map(document).collect()
}

/// What a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Prose,
    Shell,
    /// Another block, or the line that begins or ends one.
    Block,
}

impl Document {
    /// The lines of its blocks of commands (`sh`), without comments and empty lines.
    pub fn shell_lines(&self) -> Vec<Found> {
        let lines = self.lines().into_iter().filter(|(_, part, _)| *part == Part::Shell);
        let commands = lines.filter(|(_, _, line)| !line.is_empty() && !line.starts_with('#'));
        commands.map(|(number, _, line)| self.found(number, line)).collect()
    }

    /// The blocks of commands, each whole.
    pub fn scripts(&self) -> Vec<Found> {
        let mut scripts: Vec<Found> = Vec::new();
        let mut inside = false;
        for (number, part, line) in self.lines() {
            match (part, inside, scripts.last_mut()) {
                (Part::Shell, true, Some(script)) => {
                    script.text.push('\n');
                    script.text.push_str(line);
                }
                (Part::Shell, _, _) => scripts.push(self.found(number, line)),
                _ => {}
            }
            inside = part == Part::Shell;
        }
        scripts
    }

    /// Code within prose: what is between two backquotes. `\|`, which tables need, is `|`.
    pub fn inline_code(&self) -> Vec<Found> {
        let mut all = Vec::new();
        for (number, text) in self.paragraphs() {
            let code = text.split('`').skip(1).step_by(2);
            all.extend(code.map(|code| self.found(number, &code.replace("\\|", "|"))));
        }
        all
    }

    /// The targets of links to files of the repository and to headings; those with a scheme are left out.
    pub fn links(&self) -> Vec<Found> {
        if self.path == HISTORY {
            return Vec::new();
        }
        let mut all = Vec::new();
        for (number, text) in self.paragraphs() {
            let text: String = text.split('`').step_by(2).collect();
            let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            let own = targets.map(|(target, _)| target).filter(|target| !target.contains("://"));
            all.extend(own.map(|target| self.found(number, target)));
        }
        all
    }

    /// The headings as links name them.
    pub fn anchors(&self) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        for (_, _, line) in self.prose() {
            let title = line.trim_start_matches('#');
            if title.len() < line.len() && title.starts_with(' ') {
                let base = anchor(title.trim());
                let again = (1..).map(|count| format!("{base}-{count}"));
                let free = std::iter::once(base.clone()).chain(again).find(|name| !anchors.contains(name));
                anchors.extend(free);
            }
        }
        anchors
    }

    /// Prose with each paragraph, row of a table and item of a list as one text, with the number of its first
    /// line.
    fn paragraphs(&self) -> Vec<(usize, String)> {
        let mut all: Vec<(usize, String)> = Vec::new();
        let mut next = 0;
        for (number, _, line) in self.prose() {
            let begins = line.starts_with(['|', '-', '#']) || number != next;
            match all.last_mut().filter(|_| !begins) {
                Some((_, text)) => {
                    text.push(' ');
                    text.push_str(line);
                }
                None => all.push((number, line.to_owned())),
            }
            next = if line.is_empty() { 0 } else { number + 1 };
        }
        all
    }

    fn prose(&self) -> impl Iterator<Item = (usize, Part, &str)> {
        self.lines().into_iter().filter(|(_, part, _)| *part == Part::Prose)
    }

    /// Each line without its indentation, with its number.
    fn lines(&self) -> Vec<(usize, Part, &str)> {
        let mut block: Option<Part> = None;
        let line = |(index, line): (usize, &'_ str)| {
            let line = line.trim();
            let part = match (line.strip_prefix("```"), block) {
                (Some(_), Some(_)) => {
                    block = None;
                    Part::Block
                }
                (Some(language), None) => {
                    block = Some(if language == "sh" { Part::Shell } else { Part::Block });
                    Part::Block
                }
                (None, inside) => inside.unwrap_or(Part::Prose),
            };
            (index + 1, part)
        };
        let parts: Vec<_> = self.text.lines().enumerate().map(line).collect();
        parts.into_iter().zip(self.text.lines()).map(|((n, part), line)| (n, part, line.trim())).collect()
    }

    fn found(&self, line: usize, text: &str) -> Found {
        Found { place: format!("{}:{line}", self.path), text: text.to_owned() }
    }
}

/// A heading as the anchor that GitHub and mdBook give it.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The words of the first command of a line as a shell would pass them: without quotes, without a comment, up
/// to `|`, `;`, `&`, `<` or `>`.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '|' | ';' | '&' | '<' | '>') => break,
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// The words of a command in prose, where `[A]` may be left out, `A|B` is one of the two and `…` means more
/// of it: with everything that may be left out, and the first of each choice.
pub fn usage_words(code: &str) -> Vec<String> {
    let mut plain = code.replace(['[', ']'], "").replace('…', "");
    while let Some(bar) = plain.find('|').filter(|bar| !plain[..*bar].ends_with(' ')) {
        let end = plain[bar..].find(' ').map_or(plain.len(), |space| bar + space);
        plain.replace_range(bar..end, "");
    }
    words(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document { path: "docs/a.md".into(), text: text.into() }
    }

    fn texts(found: Vec<Found>) -> Vec<String> {
        found.into_iter().map(|found| found.text).collect()
    }

    #[test]
    fn commands_links_and_headings_are_found() {
        let page = document(
            "# One `two` (three)\n\nSee [a](b.md#c), `[no](link)` and [x](https://a.b).\n\n   ```sh\n   # why\n   \
             run me\n   ```\n\n```yaml\n[no](link)\n# no heading\n```\n\n## Twice\n## Twice\n`a b` and `c\\|d`, `e\n f`\n",
        );
        assert_eq!(texts(page.shell_lines()), ["run me"]);
        assert_eq!(page.shell_lines()[0].place, "docs/a.md:7");
        assert_eq!(texts(page.scripts()), ["# why\nrun me"]);
        assert_eq!(texts(page.links()), ["b.md#c"]);
        assert_eq!(texts(page.inline_code()), ["two", "[no](link)", "a b", "c|d", "e f"]);
        assert_eq!(page.anchors().into_iter().collect::<Vec<_>>(), ["one-two-three", "twice", "twice-1"]);
    }

    #[test]
    fn words_are_those_of_a_shell() {
        for (line, expected) in [
            ("a  b # c", "a b"),
            ("a 'b c' \"d\"", "a b c d"),
            ("a --b='c|d' | e", "a --b=c|d"),
            ("a > b", "a"),
            ("a b#c", "a b#c"),
        ] {
            assert_eq!(words(line).join(" "), expected);
        }
        assert_eq!(words("a 'b c'").len(), 2);
        for (usage, expected) in
            [("a [b|c] [--d E]", "a b --d E"), ("a --b|--c D | e", "a --b D"), ("a [F…] [-- G]", "a F -- G")]
        {
            assert_eq!(usage_words(usage).join(" "), expected);
        }
    }
}
