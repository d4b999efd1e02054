//! Keys, in the table, in the filter, on a page and on the list of keys.

use super::*;

fn row(name: &str, kind: &str, cpu: Option<f64>, memory: u64) -> Row {
    Row {
        name: name.into(),
        path: format!("/{name}"),
        kind: kind.into(),
        cpu,
        memory: Some(memory),
        ..Row::default()
    }
}

fn rows() -> Vec<Row> {
    let of_pod = |own: Row| Row { pod: "8c5e".into(), ..own };
    vec![
        row("b", "pod", Some(0.1), 5),
        of_pod(row("a", "pod", Some(0.1), 9)),
        of_pod(row("a:x", "container", None, 1)),
        row("s", "other", Some(3.0), 2),
    ]
}

/// A state with its rows and a screen with room for three.
struct Table {
    state: State,
    all: Vec<Row>,
    last: usize,
}

impl Table {
    fn new(show: Show) -> Self {
        Self { state: State::new(Sort::Cpu, show, Duration::from_secs(1)), all: rows(), last: 9 }
    }

    fn press(&mut self, key: Key) {
        let picking = self.state.clone();
        let rows = picking.pick(&self.all);
        self.state.cursor.settle(&rows, 3);
        let seen = Seen { all: &self.all, rows: &rows, room: 3, lines: 5, last: self.last };
        self.state.press(key, &seen);
    }

    fn type_in(&mut self, text: &str) {
        text.chars().for_each(|c| self.press(Key::Char(c)));
    }

    fn names(&self) -> String {
        self.state.pick(&self.all).iter().map(|row| row.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn page(&self) -> Option<(&str, &str)> {
        self.state.page.as_ref().map(|page| (page.path.as_str(), page.pod.as_str()))
    }
}

#[test]
fn order_and_choice() {
    let mut table = Table::new(Show::All);
    assert_eq!(table.names(), "s a b a:x");
    for (key, expected) in [('m', "a b s a:x"), ('A', "a a:x b s"), ('C', "s a b a:x"), ('z', "s a b a:x")] {
        table.press(Key::Char(key));
        assert_eq!(table.names(), expected, "{key}");
    }
    for expected in ["a b", "a:x", "s a b a:x"] {
        table.press(Key::Tab);
        assert_eq!(table.names(), expected);
    }
}

#[test]
fn the_filter_is_typed_kept_and_cleared() {
    let mut table = Table::new(Show::All);
    // Letters that sort, quit or show the keys elsewhere are only typed.
    table.type_in("/cq?");
    assert_eq!((table.state.filter.text(), table.state.quit, table.state.help), ("cq?", false, false));
    assert_eq!((table.names().as_str(), table.state.sort), ("", Sort::Cpu));
    table.press(Key::Erase);
    table.type_in("a");
    assert_eq!(table.names(), "a a:x");
    table.press(Key::Down);
    assert_eq!((table.state.cursor.at(), table.state.filter.editing), (1, true));
    table.press(Key::Enter);
    assert_eq!((table.state.cursor.at(), table.state.filter.editing, table.page()), (1, false, None));
    table.type_in("m");
    assert_eq!((table.names().as_str(), table.state.sort), ("a a:x", Sort::Memory));
    table.press(Key::Escape);
    assert_eq!(table.names(), "a b s a:x");
    table.press(Key::Escape);
    assert!(!table.state.quit, "one Escape too many");
    // Taken back to nothing and once more, or cleared at once, the keys have their meanings again.
    for end in [vec![Key::Backspace, Key::Backspace], vec![Key::Escape]] {
        table.type_in("/x");
        end.into_iter().for_each(|key| table.press(key));
        assert_eq!((table.state.filter.editing, table.names().as_str()), (false, "a b s a:x"));
    }
    table.type_in("q");
    assert!(table.state.quit);
}

#[test]
fn a_page_opens_and_closes() {
    for (show, steps, expected) in [
        (Show::Pods, 0, ("/a", "8c5e")),
        (Show::Pods, 1, ("/b", "")),
        // A container's page is that of its pod, and a cgroup of none has one too.
        (Show::Containers, 0, ("/a", "8c5e")),
        (Show::All, 0, ("/s", "")),
    ] {
        for (open, close) in
            [(Key::Enter, Key::Escape), (Key::Right, Key::Left), (Key::Enter, Key::Char('q'))]
        {
            let mut table = Table::new(show);
            (0..steps).for_each(|_| table.press(Key::Down));
            table.press(open);
            assert_eq!(table.page(), Some(expected));
            table.press(Key::Char('m'));
            assert_eq!((table.page(), table.state.sort), (Some(expected), Sort::Cpu));
            table.press(close);
            assert_eq!((table.page(), table.state.quit), (None, false));
            assert_eq!(table.state.cursor.at(), steps, "the same row is chosen");
        }
    }
    let mut empty = Table::new(Show::Pods);
    empty.all.clear();
    empty.press(Key::Enter);
    assert_eq!(empty.page(), None);
}

#[test]
fn a_page_is_scrolled_within_its_bounds() {
    let mut table = Table::new(Show::Pods);
    table.press(Key::Enter);
    for (key, expected) in [
        (Key::Up, 0),
        (Key::Down, 1),
        (Key::Char('j'), 2),
        (Key::PageDown, 7),
        (Key::PageDown, 9),
        (Key::Char('k'), 8),
        (Key::Home, 0),
        (Key::End, 9),
        (Key::PageUp, 4),
    ] {
        table.press(key);
        assert_eq!(table.state.page.as_ref().map(|page| page.scroll), Some(expected), "{key:?}");
    }
    // It has become shorter.
    table.last = 2;
    table.press(Key::Up);
    assert_eq!(table.state.page.as_ref().map(|page| page.scroll), Some(1));
}

#[test]
fn the_keys_are_shown_over_everything() {
    for close in [Key::Char('?'), Key::Escape, Key::Char('q'), Key::Enter, Key::Left] {
        let mut table = Table::new(Show::Pods);
        table.press(Key::Enter);
        table.press(Key::Char('?'));
        table.press(Key::Char('m'));
        assert!(table.state.help);
        table.press(close);
        assert_eq!((table.state.help, table.state.quit, table.page().is_some()), (false, false, true));
    }
}

#[test]
fn ctrl_c_ends_it_anywhere() {
    for keys in [vec![], vec![Key::Char('/')], vec![Key::Enter], vec![Key::Char('?')]] {
        let mut table = Table::new(Show::Pods);
        keys.into_iter().for_each(|key| table.press(key));
        table.press(Key::Quit);
        assert!(table.state.quit);
    }
}

#[test]
fn speed_has_bounds() {
    let mut table = Table::new(Show::Pods);
    (0..20).for_each(|_| table.press(Key::Char('-')));
    assert_eq!(table.state.interval, FASTEST);
    (0..20).for_each(|_| table.press(Key::Char('+')));
    assert_eq!(table.state.interval, SLOWEST);
}

#[test]
fn the_cursor_moves_by_rows_and_screens() {
    let mut table = Table::new(Show::All);
    for (key, expected) in [
        (Key::Up, 0),
        (Key::PageDown, 3),
        (Key::Down, 3),
        (Key::PageUp, 0),
        (Key::End, 3),
        (Key::Char('k'), 2),
        (Key::Home, 0),
        (Key::Char('j'), 1),
    ] {
        table.press(key);
        assert_eq!(table.state.cursor.at(), expected, "{key:?}");
    }
}
