//! Frames on narrow and wide terminals, with no pods and with a thousand.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;

use crate::cli::top::columns::Column;
use crate::cli::top::example;
use crate::cli::top::shown::Shown;
use crate::cli::top::sort::{Show, Sort};
use crate::cli::top::state::{Key, Seen, State};

const READINGS: u64 = 40;

fn state(show: Show) -> State {
    State::new(Sort::Cpu, show, Duration::from_secs(2))
}

fn press(shown: &Shown, state: &mut State, keys: &[Key]) {
    for &key in keys {
        let rows = state.pick(&shown.rows);
        state.press(key, &Seen { all: &shown.rows, rows: &rows, room: 20, lines: 20, last: 0 });
    }
}

/// The lines of a frame without what is empty at their ends, and how far the page can be scrolled.
fn frame(shown: &Shown, state: &mut State, width: u16, height: u16) -> (Vec<String>, usize) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut last = 0;
    terminal.draw(|frame| last = shown.draw(frame, state, example::now(READINGS))).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let lines = buffer.content().chunks(usize::from(width));
    let lines = lines.map(|line| line.iter().map(Cell::symbol).collect::<String>().trim_end().to_owned());
    (lines.collect(), last)
}

fn screen(shown: &Shown, state: &mut State, width: u16, height: u16) -> Vec<String> {
    frame(shown, state, width, height).0
}

/// The page of the first pod.
fn page(pods: usize) -> (Shown, State) {
    let mut shown = example::shown(pods, READINGS);
    shown.details = example::details(example::now(READINGS));
    let mut state = state(Show::Pods);
    press(&shown, &mut state, &[Key::Char('/')]);
    press(&shown, &mut state, &"cart".chars().map(Key::Char).collect::<Vec<_>>());
    press(&shown, &mut state, &[Key::Enter, Key::Enter]);
    (shown, state)
}

#[test]
fn narrow() {
    let shown = example::shown(3, READINGS);
    let screen = screen(&shown, &mut state(Show::Pods), 50, 8);
    assert!(screen[0].starts_with("node-1  cpu 1.") && screen[0].ends_with("of 16.0"), "{}", screen[0]);
    assert_eq!(screen[1], "agent 1.0.0 manage, 31.0Mi resident");
    assert_eq!(screen[2], "NAME                             CPU   WAIT    MEM");
    for (line, name) in screen[3..6].iter().zip([
        "shop/search-0",
        "shop/cart-6d4b9c7f58-x2k8p",
        "shop/checkout-7c5f6d9b4-q9w7z",
    ]) {
        assert!(line.starts_with(name) && line.ends_with('i') && line.chars().count() == 50, "{line}");
    }
    assert_eq!(screen[6..], ["", "pods by cpu, every 2.00s  ? keys  q quit"]);
}

#[test]
fn usual() {
    let shown = example::shown(12, READINGS);
    let screen = screen(&shown, &mut state(Show::Pods), 80, 24);
    assert_eq!(screen[2], "NAME                           CPU   CPU HIST   WAIT    MEM  LIMIT   RX/s   TX/s");
    assert!(screen.iter().all(|line| line.chars().count() <= 80));
    assert!(screen[3].starts_with("media/transcode-5k2vd") && screen[3].contains('▇'), "{}", screen[3]);
    assert_eq!(screen[23], "pods by cpu, every 2.00s  / filter  Enter opens  ? keys  q quit");
}

#[test]
fn wide_shows_all_and_full_names() {
    let shown = example::shown(12, READINGS);
    let screen = screen(&shown, &mut state(Show::Pods), 200, 20);
    for column in Column::ALL.into_iter().filter(|&column| column != Column::History) {
        assert!(screen[2].contains(column.title()), "{column:?}");
    }
    assert!(screen.iter().any(|line| line.starts_with("shop/checkout-7c5f6d9b4-q9w7z ")));
    // The history takes the room that is left.
    assert!(screen[3].chars().filter(|c| ('▁'..='█').contains(c)).count() > 20, "{}", screen[3]);
    assert!(screen[19].contains("Tab pods/containers/all"));
}

#[test]
fn the_history_is_that_of_the_order() {
    let shown = example::shown(12, READINGS);
    for (key, title) in [('m', "MEM HIST"), ('w', "WAIT HIST"), ('n', "CPU HIST"), ('c', "CPU HIST")] {
        let mut state = state(Show::Pods);
        press(&shown, &mut state, &[Key::Char(key)]);
        assert!(screen(&shown, &mut state, 120, 20)[2].contains(title), "{key}");
    }
}

#[test]
fn the_filter_is_shown_while_it_is_typed_and_after() {
    let shown = example::shown(12, READINGS);
    let mut state = state(Show::Pods);
    press(&shown, &mut state, &[Key::Char('/'), Key::Char('s'), Key::Char('h'), Key::Char('o')]);
    let typed = screen(&shown, &mut state, 80, 10);
    assert_eq!(typed[9], "/sho█  3 pods  Enter keeps  Esc clears");
    assert!(typed[3..6].iter().all(|line| line.starts_with("shop/")) && typed[6].is_empty());
    press(&shown, &mut state, &[Key::Enter]);
    assert!(screen(&shown, &mut state, 120, 10)[9].starts_with("pods /sho (3) by cpu, every 2.00s  /"));
    press(&shown, &mut state, &[Key::Char('/'), Key::Char('z')]);
    assert_eq!(screen(&shown, &mut state, 80, 10)[3], "no pods with \"shoz\": Esc clears the filter");
}

#[test]
fn an_empty_table_shows_a_hint() {
    let shown = example::shown(0, READINGS);
    assert_eq!(screen(&shown, &mut state(Show::Pods), 80, 8)[3], "no pods: press Tab for others");
}

#[test]
fn a_thousand_pods() {
    let shown = example::shown(1000, 2);
    let mut state = state(Show::Pods);
    let first = screen(&shown, &mut state, 100, 30);
    assert!(first[0].contains("pods 1000  containers 1001"), "{}", first[0]);
    press(&shown, &mut state, &[Key::Char('a'), Key::End]);
    let last = screen(&shown, &mut state, 100, 30);
    assert!(last[28].starts_with("shop/search-0"), "{}", last[28]);
    press(&shown, &mut state, &[Key::Enter]);
    assert_eq!(screen(&shown, &mut state, 100, 30)[0], "shop/search-0");
}

#[test]
fn a_page_with_everything() {
    let (shown, mut state) = page(12);
    let (screen, last) = frame(&shown, &mut state, 120, 50);
    let text = screen.join("\n");
    assert_eq!(last, 0);
    assert_eq!(screen[0], "shop/cart-6d4b9c7f58-x2k8p");
    assert!(
        screen[1]
            .starts_with("Running, NotReady, 1 of 2 ready, 2 restarts, Burstable, 10.0.3.17, created 3h"),
        "{}",
        screen[1]
    );
    assert!(
        screen[2].starts_with("CPU 0.") && screen[2].contains("MEM ") && screen[2].contains("WAIT "),
        "{}",
        screen[2]
    );
    for expected in [
        "Waits      for a CPU ",
        "PSI 10s    cpu 6.30%, memory 0.00%, io 0.45%",
        "CPU limit  cores 1.00, weight 79",
        "\nCONTAINER ",
        "\nweb  ",
        "  Running for 19m50s, ready, 2 restarts, image registry.example/web:1.8\n",
        "  last ended: OOMKilled, exit code 137, 20m0s ago, killed for memory: java (pid 48211)\n",
        "  requests cpu 250m, memory 128Mi; limits cpu 1, memory 256Mi\n",
        "  readiness success (118 in a row); http-get http://:8080/ready delay=0s",
        "  readiness failure (4 in a row): the queue is full; exec [ready]",
        "\nEVENTS\n    24s ago  pod             Unhealthy: Readiness probe failed: the queue is full in container web\n",
        "  20m0s ago  oom             java (pid 48211) killed in container web, at its own limit 256Mi; had",
        "Esc back  ? keys",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
}

#[test]
fn a_page_is_scrolled_and_wrapped() {
    let (shown, mut state) = page(12);
    for (width, height) in [(40, 12), (80, 24), (100, 19)] {
        state.page.as_mut().unwrap().scroll = 0;
        let (first, last) = frame(&shown, &mut state, width, height);
        assert!(first.join("\n").contains("Waits      for a CPU"), "{first:?}");
        state.page.as_mut().unwrap().scroll = last;
        let (end, _) = frame(&shown, &mut state, width, height);
        let text = end[2..].iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        assert!(last > 0 && text.contains("Started container web"), "{text}");
        assert!(!end[usize::from(height) - 2].is_empty(), "the last line is at the end: {end:?}");
    }
}

#[test]
fn a_pod_that_is_gone_or_unknown() {
    let (mut shown, mut state) = page(12);
    shown.details = Default::default();
    let observed = screen(&shown, &mut state, 100, 40);
    assert!(observed[1].starts_with("Burstable, created 3h"), "{}", observed[1]);
    assert!(
        observed
            .iter()
            .any(|line| line.contains("created 3h") && line.contains("image registry.example/web:1.8"))
    );
    assert!(observed.iter().any(|line| line == "none in the journal"));
    state.page.as_mut().unwrap().path = "/gone".into();
    assert_eq!(screen(&shown, &mut state, 100, 40)[1], "it has no cgroup any more");
}

#[test]
fn a_cgroup_of_no_pod_has_those_below_it() {
    let shown = example::shown(12, READINGS);
    let mut state = state(Show::All);
    press(&shown, &mut state, &[Key::Char('/'), Key::Escape, Key::Enter]);
    let screen = screen(&shown, &mut state, 100, 40);
    assert_eq!(screen[0], "/");
    assert!(!screen.iter().any(|line| line.starts_with("EVENTS")));
}

#[test]
fn the_keys_are_in_front() {
    let (shown, mut state) = page(1);
    press(&shown, &mut state, &[Key::Char('?')]);
    let text = screen(&shown, &mut state, 80, 24).join("\n");
    for key in ["Keys", "Tab", "filter", "Ctrl-C", "slower, faster"] {
        assert!(text.contains(key), "{key}:\n{text}");
    }
}

#[test]
fn tiny_terminals_do_not_panic() {
    let (shown, open) = page(3);
    let (empty, many) = (example::shown(0, 1), example::shown(1000, 1));
    let small = (1..40).step_by(6).flat_map(|width| (1..14).step_by(3).map(move |height| (width, height)));
    for (width, height) in small.chain([(300, 1), (1, 300)]) {
        for help in [false, true] {
            for shown in [&shown, &empty] {
                for mut state in [state(Show::Pods), open.clone()] {
                    state.help = help;
                    screen(shown, &mut state, width, height);
                    state.filter.editing = true;
                    screen(shown, &mut state, width, height);
                }
            }
        }
    }
    screen(&many, &mut state(Show::All), 1, 1);
}
