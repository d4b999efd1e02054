//! Keys and resizes of the terminal.

use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

use super::state::Key;

/// Longest wait for a key, so that the input thread notices the end of the program.
const KEY_POLL: Duration = Duration::from_millis(200);

/// Input from the terminal.
pub enum Input {
    Key(Key),
    Resized,
}

/// Keys and resizes, read on a separate thread that ends when the receiver is dropped.
pub fn inputs() -> mpsc::Receiver<Input> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            match event::poll(KEY_POLL).and_then(|ready| ready.then(event::read).transpose()) {
                Ok(None) => {}
                Ok(Some(event)) => {
                    if let Some(input) = translate(&event)
                        && sender.blocking_send(input).is_err()
                    {
                        return;
                    }
                }
                // The terminal was closed: the receiver sees that when the sender is dropped.
                Err(_) => return,
            }
        }
    });
    receiver
}

fn translate(event: &Event) -> Option<Input> {
    let key = match event {
        Event::Resize(..) => return Some(Input::Resized),
        Event::Key(key) if key.kind == KeyEventKind::Press => key,
        _ => return None,
    };
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let key = match key.code {
        KeyCode::Char('c' | 'd') if control => Key::Quit,
        KeyCode::Char('u' | 'w') if control => Key::Erase,
        // What terminals send for Backspace too.
        KeyCode::Char('h') if control => Key::Backspace,
        KeyCode::Char(_) if control => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Esc => Key::Escape,
        KeyCode::Enter => Key::Enter,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    };
    Some(Input::Key(key))
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn keys_are_translated() {
        for (code, modifiers, expected) in [
            (KeyCode::Char('c'), KeyModifiers::CONTROL, Some(Key::Quit)),
            (KeyCode::Char('u'), KeyModifiers::CONTROL, Some(Key::Erase)),
            (KeyCode::Char('x'), KeyModifiers::CONTROL, None),
            (KeyCode::Char('C'), KeyModifiers::SHIFT, Some(Key::Char('C'))),
            (KeyCode::Esc, KeyModifiers::NONE, Some(Key::Escape)),
            (KeyCode::Enter, KeyModifiers::NONE, Some(Key::Enter)),
            (KeyCode::F(1), KeyModifiers::NONE, None),
        ] {
            let key = match translate(&Event::Key(KeyEvent::new(code, modifiers))) {
                Some(Input::Key(key)) => Some(key),
                _ => None,
            };
            assert_eq!(key, expected, "{code:?}");
        }
        assert!(matches!(translate(&Event::Resize(1, 1)), Some(Input::Resized)));
        assert!(translate(&Event::FocusGained).is_none());
    }
}
