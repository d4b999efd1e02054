//! Which rooms (top-level modules) a crate has, and which of them each imports.

use std::collections::BTreeMap;

use super::source::{Kind, Token, product};

/// The sources of a crate: the text of each file below its `src/`, by its path from there (`pods/worker.rs`).
pub type Sources = BTreeMap<String, String>;

/// One place where a room uses another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The file, from the crate's `src/`.
    pub file: String,
    /// Its line, counted from 1.
    pub line: usize,
    /// The room in which it is.
    pub from: String,
    /// The room that it uses.
    pub to: String,
}

/// What the sources of a crate say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rooms {
    /// The top-level modules of the product, in the order of their declarations.
    pub names: Vec<String>,
    /// Every use of one in another, in the order of files and lines.
    pub imports: Vec<Import>,
    /// Rooms of which the root has every name by a `*`, and the line: an import of such a name can't be seen.
    pub hidden: Vec<(String, usize)>,
    /// Modules that are declared and have no file: where, and which files were looked for.
    pub missing: Vec<(String, usize, String)>,
}

/// The file in which a library begins.
const LIBRARY: &str = "lib.rs";
/// The file in which a program begins.
const PROGRAM: &str = "main.rs";

/// Reads the crate from its root, following the modules of the product; what only tests have is left out. A
/// program next to a library is above all rooms and is not read.
pub fn rooms(sources: &Sources) -> Rooms {
    let root = [LIBRARY, PROGRAM].into_iter().find(|root| sources.contains_key(*root));
    let mut reader = Reader { sources, rooms: Rooms::default(), exported: BTreeMap::new() };
    if let Some(root) = root {
        let tokens = product(&sources[root]);
        reader.rooms.names = declared(&tokens);
        reader.exported = exported(&tokens, &reader.rooms.names);
        reader.rooms.hidden = hidden(&tokens, &reader.rooms.names);
        reader.file(root, &tokens, &[]);
    }
    let mut rooms = reader.rooms;
    rooms.imports.sort();
    rooms.imports.dedup();
    rooms
}

struct Reader<'a> {
    sources: &'a Sources,
    rooms: Rooms,
    /// Names that the root exports for a room (`pub use room::Name`), and the room.
    exported: BTreeMap<String, String>,
}

impl Reader<'_> {
    /// Reads a file that is the module `module`.
    fn file(&mut self, file: &str, tokens: &[Token], module: &[String]) {
        let mut module = module.to_vec();
        // The depth of braces at which each module inside the file ends.
        let mut ends = Vec::new();
        let mut depth = 0;
        for (at, token) in tokens.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| tokens.get(at)).map(|token| token.kind);
            match token.kind {
                Kind::Sign('{') => depth += 1,
                Kind::Sign('}') => {
                    depth -= 1;
                    if ends.last() == Some(&depth) {
                        ends.pop();
                        module.pop();
                    }
                }
                Kind::Word("mod") => match kinds(&tokens[at + 1..]) {
                    [Some(Kind::Word(name)), Some(Kind::Sign('{'))] => {
                        ends.push(depth);
                        module.push(name.to_owned());
                    }
                    [Some(Kind::Word(name)), Some(Kind::Sign(';'))] => {
                        module.push(name.to_owned());
                        self.declaration(file, token.line, &module);
                        module.pop();
                    }
                    _ => {}
                },
                // `pub(crate)` and `use a::self` begin no path.
                Kind::Word("crate" | "super" | "self") if before != Some(Kind::Sign(':')) => {
                    let mut paths = Vec::new();
                    tree(&tokens[at..], Vec::new(), &mut paths);
                    self.imports(file, &module, paths);
                }
                _ => {}
            }
        }
    }

    /// Reads the file of the module `module`, which `file` declares.
    fn declaration(&mut self, file: &str, line: usize, module: &[String]) {
        let path = module.join("/");
        let candidates = [format!("{path}.rs"), format!("{path}/mod.rs")];
        match candidates.iter().find_map(|name| Some((name, self.sources.get(name)?))) {
            Some((name, text)) => self.file(name, &product(text), module),
            None => {
                let [first, second] = candidates;
                self.rooms.missing.push((file.to_owned(), line, format!("{first} or {second}")));
            }
        }
    }

    /// Adds the rooms that `paths`, which are in `module`, lead into.
    fn imports(&mut self, file: &str, module: &[String], paths: Vec<Path>) {
        let Some(from) = module.first() else { return };
        for Path { segments, line, .. } in paths {
            let mut place = module.to_vec();
            for segment in segments {
                match segment {
                    "crate" => place.clear(),
                    "self" => {}
                    "super" => drop(place.pop()),
                    name => place.push(name.to_owned()),
                }
                if let [first] = &place[..] {
                    let to = self.exported.get(first).unwrap_or(first);
                    if to != from && self.rooms.names.contains(to) {
                        let (file, from, to) = (file.to_owned(), from.clone(), to.clone());
                        self.rooms.imports.push(Import { file, line, from, to });
                    }
                }
            }
        }
    }
}

fn kinds<'a, const N: usize>(tokens: &[Token<'a>]) -> [Option<Kind<'a>>; N] {
    std::array::from_fn(|at| tokens.get(at).map(|token| token.kind))
}

/// One path with its segments.
#[derive(Debug)]
struct Path<'a> {
    segments: Vec<&'a str>,
    /// The name in `as name`.
    alias: Option<&'a str>,
    line: usize,
}

/// Collects the paths that `tokens` begin with, `a::{b, c::d}` being two, below `before`. Returns the length.
fn tree<'a>(tokens: &[Token<'a>], mut before: Vec<&'a str>, paths: &mut Vec<Path<'a>>) -> usize {
    let mut at = 0;
    let mut line = tokens.first().map_or(0, |token| token.line);
    loop {
        match kinds(&tokens[at..]) {
            [Some(Kind::Word(segment)), Some(Kind::Sign(':')), Some(Kind::Sign(':'))] => {
                before.push(segment);
                line = tokens[at].line;
                at += 3;
            }
            [Some(Kind::Word(segment)), then, next] => {
                before.push(segment);
                let (alias, length) = match (then, next) {
                    (Some(Kind::Word("as")), Some(Kind::Word(alias))) => (Some(alias), 3),
                    _ => (None, 1),
                };
                paths.push(Path { segments: before, alias, line: tokens[at].line });
                return at + length;
            }
            [Some(Kind::Sign('{')), ..] => {
                at += 1;
                loop {
                    match tokens.get(at).map(|token| token.kind) {
                        Some(Kind::Word(_) | Kind::Sign('{')) => {
                            at += tree(&tokens[at..], before.clone(), paths);
                        }
                        None | Some(Kind::Sign('}' | ';')) => return at + 1,
                        _ => at += 1,
                    }
                }
            }
            _ => {
                paths.push(Path { segments: before, alias: None, line });
                return at + 1;
            }
        }
    }
}

/// The modules that the root declares.
fn declared(tokens: &[Token]) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Sign('{') => depth += 1,
            Kind::Sign('}') => depth -= 1,
            Kind::Word("mod") if depth == 0 => {
                if let [Some(Kind::Word(name)), Some(Kind::Sign(';' | '{'))] = kinds(&tokens[at + 1..]) {
                    names.push(name.to_owned());
                }
            }
            _ => {}
        }
    }
    names
}

/// The names by which the root exports what is in `rooms`, with the room of each. (A `*` has no names.)
fn exported(tokens: &[Token], rooms: &[String]) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.kind != Kind::Word("use") {
            continue;
        }
        let mut paths = Vec::new();
        tree(&tokens[at + 1..], Vec::new(), &mut paths);
        for Path { segments, alias, .. } in paths {
            let mut segments = segments.into_iter().filter(|word| !matches!(*word, "crate" | "self"));
            if let (Some(room), Some(name)) = (segments.next(), alias.or(segments.next_back()))
                && rooms.iter().any(|known| known == room)
                && !rooms.iter().any(|known| known == name)
            {
                exported.insert(name.to_owned(), room.to_owned());
            }
        }
    }
    exported
}

/// The rooms of which the root has every name by a `*`, with the lines.
fn hidden(tokens: &[Token], rooms: &[String]) -> Vec<(String, usize)> {
    let all = (0..tokens.len()).filter_map(|at| match kinds(&tokens[at..]) {
        [Some(Kind::Word(room)), Some(Kind::Sign(':')), Some(Kind::Sign(':')), Some(Kind::Sign('*'))] => {
            Some((room.to_owned(), tokens[at].line))
        }
        _ => None,
    });
    all.filter(|(room, _)| rooms.contains(room)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let rooms = rooms(&sources(files));
        assert_eq!(rooms.missing, []);
        let line = |import: &Import| format!("{}:{} {}>{}", import.file, import.line, import.from, import.to);
        rooms.imports.iter().map(line).collect()
    }

    const ROOT: (&str, &str) =
        ("lib.rs", "mod a; pub mod b; mod c { pub mod d {} } pub use b::{e::Thing, Other as Named};");

    #[test]
    fn every_form_of_a_path_is_an_import() {
        for (text, expected) in [
            ("use crate::b;", &["a.rs:1 a>b"][..]),
            ("use crate::b::x::{self, Y};", &["a.rs:1 a>b"]),
            ("use crate::{\n    b::x,\n    c::{d, e},\n};", &["a.rs:2 a>b", "a.rs:3 a>c"]),
            ("fn f() -> crate::b::X { x }", &["a.rs:1 a>b"]),
            ("pub(in crate::b) struct X;", &["a.rs:1 a>b"]),
            ("use super::b::X;", &["a.rs:1 a>b"]),
            ("mod inner { use super::b; use super::super::c; }", &["a.rs:1 a>c"]),
            ("use self::super::b;", &["a.rs:1 a>b"]),
            ("use crate::b::*;", &["a.rs:1 a>b"]),
            ("macro_rules! m { () => { $crate::b::X } }", &["a.rs:1 a>b"]),
            // What the root exports is the room's own.
            ("use crate::Thing;", &["a.rs:1 a>b"]),
            ("use crate::{Thing as T, Named as N};", &["a.rs:1 a>b"]),
            ("use crate::Named;", &["a.rs:1 a>b"]),
            ("use crate::{VERSION as c, Other, a::X as b};", &[]),
            ("use crate::{VERSION, a::X}; pub(crate) use self::x::Y;", &[]),
            ("use other::b; // crate::b", &[]),
            ("#[cfg(test)] mod tests { use crate::b; }", &[]),
        ] {
            assert_eq!(edges(&[ROOT, ("a.rs", text), ("b.rs", "")]), expected, "{text}");
        }
    }

    #[test]
    fn modules_are_followed_into_their_files() {
        let files = [
            ROOT,
            ("a.rs", "mod deep; #[cfg(test)] mod tests;"),
            ("a/deep.rs", "mod deeper;\nuse super::super::b;"),
            ("a/deep/deeper.rs", "use super::super::super::c;"),
            ("a/tests.rs", "use crate::b;"),
            ("b/mod.rs", "mod x { pub use crate::a; }"),
            ("unused.rs", "use crate::b;"),
        ];
        assert_eq!(edges(&files), ["a/deep.rs:2 a>b", "a/deep/deeper.rs:1 a>c", "b/mod.rs:1 b>a"]);
    }

    #[test]
    fn a_module_without_a_file_is_named() {
        let rooms = rooms(&sources(&[("lib.rs", "\nmod a;")]));
        assert_eq!(rooms.missing, [("lib.rs".to_owned(), 2, "a.rs or a/mod.rs".to_owned())]);
        assert_eq!(rooms.names, ["a"]);
    }

    #[test]
    fn a_star_in_the_root_hides_the_names_of_a_room() {
        let root = "mod a;\npub use a::*;\nmod b;\nuse {std::io, b::*};\nuse other::*; use a::{b, c};";
        let rooms = rooms(&sources(&[("lib.rs", root), ("a.rs", "use crate::b::*;"), ("b.rs", "")]));
        assert_eq!(rooms.hidden, [("a".to_owned(), 2), ("b".to_owned(), 4)]);
    }

    #[test]
    fn a_program_without_a_library_has_rooms_too() {
        let files =
            [("main.rs", "mod a; mod b; fn main() { b::x() }"), ("a.rs", "use crate::b;"), ("b.rs", "")];
        assert_eq!(edges(&files), ["a.rs:1 a>b"]);
    }
}
