//! Rust source as a list of words and signs with their lines: just enough of the language's grammar to find
//! modules and paths, and to leave out comments, literals and what is compiled for tests only.

/// A word or a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A keyword or a name.
    Word(&'a str),
    /// A character of its own, such as `:` or `{`.
    Sign(char),
    /// A literal or a lifetime.
    Other,
}

/// A [`Kind`] and the line it is on, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind<'a>,
    /// Its line.
    pub line: usize,
}

/// The tokens of `text` without those that are compiled for tests only.
pub fn product(text: &str) -> Vec<Token<'_>> {
    without_tests(&tokens(text))
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut rest = text;
    let mut line = 1;
    let mut found = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (kind, length) = token(rest, first);
        let (this, next) = rest.split_at(length);
        found.extend(kind.map(|kind| Token { kind, line }));
        line += this.matches('\n').count();
        rest = next;
    }
    found
}

/// The token at the start of `text`, or `None` for space and comments; and its length.
fn token(text: &str, first: char) -> (Option<Kind<'_>>, usize) {
    if first.is_whitespace() {
        (None, first.len_utf8())
    } else if text.starts_with("//") {
        (None, text.find('\n').unwrap_or(text.len()))
    } else if text.starts_with("/*") {
        (None, block_comment(text))
    } else if first == '"' {
        (Some(Kind::Other), string(text))
    } else if first == '\'' {
        (Some(Kind::Other), quote(text))
    } else if first.is_alphanumeric() || first == '_' {
        let length = word(text);
        match literal(text, length) {
            Some(length) => (Some(Kind::Other), length),
            None if first.is_ascii_digit() => (Some(Kind::Other), length),
            None => (Some(Kind::Word(&text[..length])), length),
        }
    } else {
        (Some(Kind::Sign(first)), first.len_utf8())
    }
}

fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// The length of a literal that begins with a word of `prefix` bytes: `b"..."`, `r#"..."#`, `b'x'`. A raw
/// name (`r#x`) counts as one as well: no module of ours is called like a keyword.
fn literal(text: &str, prefix: usize) -> Option<usize> {
    let rest = &text[prefix..];
    match &text[..prefix] {
        "b" | "c" if rest.starts_with('"') => Some(prefix + string(rest)),
        "b" if rest.starts_with('\'') => Some(prefix + quote(rest)),
        "r" | "br" | "cr" => {
            let hashes = rest.len() - rest.trim_start_matches('#').len();
            let inside = prefix + hashes + 1;
            if rest[hashes..].starts_with('"') {
                let end = format!("\"{}", "#".repeat(hashes));
                Some(text[inside..].find(&end).map_or(text.len(), |at| inside + at + end.len()))
            } else {
                (hashes == 1).then(|| prefix + 1 + word(&rest[1..]))
            }
        }
        _ => None,
    }
}

/// The length of a string in double quotes.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character or a lifetime.
fn quote(text: &str) -> usize {
    let mut inside = text[1..].chars();
    match (inside.next(), inside.next()) {
        (Some('\\'), Some(_)) => text[3..].find('\'').map_or(text.len(), |at| at + 4),
        (Some(c), Some('\'')) => c.len_utf8() + 2,
        _ => 1 + word(&text[1..]),
    }
}

/// The length of a comment, which may have others in it.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut product = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match attribute(&tokens[at..]) {
            Some((_, true)) => at += attributed(&tokens[at..]),
            Some((length, false)) => at += length,
            None => {
                product.push(*token);
                at += 1;
            }
        }
    }
    product
}

/// The length of the attribute that `tokens` begin with, and whether it leaves only tests.
fn attribute(tokens: &[Token]) -> Option<(usize, bool)> {
    let open = match tokens {
        [hash, open, ..] if (hash.kind, open.kind) == (Kind::Sign('#'), Kind::Sign('[')) => 1,
        [hash, bang, open, ..]
            if [hash, bang, open].map(|token| token.kind) == ['#', '!', '['].map(Kind::Sign) =>
        {
            2
        }
        _ => return None,
    };
    let length = open + enclosed(&tokens[open..]);
    let words = tokens[..length].iter().filter_map(|token| match token.kind {
        Kind::Word(word) => Some(word),
        _ => None,
    });
    let words = words.take(3).collect::<Vec<_>>();
    let tests =
        matches!(words[..], ["cfg", "test", ..] | ["cfg", "all", "test"] | ["test"] | ["tokio", "test", ..]);
    Some((length, tests))
}

/// The length of brackets that `tokens` begin with, with what is in them.
fn enclosed(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Sign('(' | '[' | '{') => depth += 1,
            Kind::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The length of the attributes that `tokens` begin with and the item, field or arm that they are for.
fn attributed(tokens: &[Token]) -> usize {
    let mut at = 0;
    while let Some((length, _)) = attribute(&tokens[at..]) {
        at += length;
    }
    let mut words = tokens[at..].iter().take(8).filter_map(|token| match token.kind {
        Kind::Word(word) if !matches!(word, "pub" | "crate" | "super") => Some(word),
        _ => None,
    });
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // What ends it: a semicolon, a block, a comma.
    let (block, comma) = match (first, second) {
        ("const", "fn" | "unsafe") => (true, false),
        ("use" | "static" | "type" | "let" | "const", _) => (false, false),
        ("fn" | "impl" | "mod" | "struct" | "enum" | "union" | "trait" | "unsafe" | "async", _) => {
            (true, false)
        }
        ("extern" | "macro_rules", _) => (true, false),
        _ => (true, true),
    };
    while let Some(token) = tokens.get(at) {
        match token.kind {
            Kind::Sign(';') => return at + 1,
            Kind::Sign(',') if comma => return at + 1,
            Kind::Sign(')' | ']' | '}') => return at,
            Kind::Sign('{') if block => return at + enclosed(&tokens[at..]),
            Kind::Sign('(' | '[' | '{') => at += enclosed(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        let words = product(text).into_iter().filter_map(|token| match token.kind {
            Kind::Word(word) => Some(word.to_owned()),
            _ => None,
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        for (text, expected) in [
            ("a // b\nc /* d /* e */ f */ g", "a c g"),
            (r#"a "b \" c" d"#, "a d"),
            ("a r#\"b \" c\"# d b\"e\" f br\"g\" h c\"i\" j", "a d f h j"),
            (r"a 'b' c '\'' d '\\' e 'f g", "a c d e g"),
            ("fn a<'b>(c: &'static str) -> d { 0x1f_u32; b'e' }", "fn a c str d"),
            ("'\u{e9}' a '\\u{e9}' b", "a b"),
            ("r#type a", "a"),
            ("\"no end", ""),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_are_counted_through_comments_and_strings() {
        let found = product("a\n/* \n */ b \"\n\n\" c");
        let lines = found.iter().filter(|token| matches!(token.kind, Kind::Word(_)));
        assert_eq!(lines.map(|token| token.line).collect::<Vec<_>>(), [1, 3, 5]);
    }

    #[test]
    fn what_is_for_tests_only_is_left_out() {
        for (text, expected) in [
            ("#[cfg(test)] mod tests { a } b", "b"),
            ("#[cfg(test)]\n#[allow(x)]\npub(crate) mod tests;\nb", "b"),
            ("#[cfg(test)] use a::{b, c}; d", "d"),
            ("#[cfg(test)] fn a<T, U>(b: [u8; 2]) -> T { c } d", "d"),
            ("#[cfg(test)] const A: B = { c }; d", "d"),
            ("#[cfg(test)] pub const fn a() { c } d", "d"),
            ("struct A { #[cfg(test)] b: C<D>, e: F }", "struct A e F"),
            ("struct A { e: F, #[cfg(test)] b: C }", "struct A e F"),
            ("#[cfg(all(test, x))] mod a { b } c", "c"),
            ("#[test] fn a() { b } c", "c"),
            ("#[cfg(not(test))] mod a;", "mod a"),
            ("#[cfg(any(test, b))] mod a;", "mod a"),
            ("#![allow(x)] #[derive(Debug)] struct A;", "struct A"),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }
}
