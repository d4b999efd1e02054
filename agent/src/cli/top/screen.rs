//! The live table: queries the agent, draws, handles keys.

use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use nodewarden_proto::nodewarden::v1::nodewarden_client::NodewardenClient;
use nodewarden_proto::nodewarden::v1::{GetStatusRequest, GetStatusResponse, ListCgroupsResponse};
use ratatui::DefaultTerminal;
use tokio::sync::mpsc;
use tonic::transport::Channel;

use super::draw::{View, draw, page};
use super::rates::{self, Row};
use super::state::{Key, State};
use super::{CliError, header, list};
use crate::cli::format::span;

/// Longest wait for a key, so that the input thread notices the end of the program.
const KEY_POLL: Duration = Duration::from_millis(200);

/// Input from the terminal.
enum Input {
    Key(Key),
    Resized,
}

/// Contents of the last responses.
struct Shown {
    list: ListCgroupsResponse,
    rows: Vec<Row>,
    node: String,
    agent: String,
    answered: Instant,
    error: Option<String>,
}

/// Shows the live table until the user quits; the terminal is restored in any case.
pub async fn run(
    client: NodewardenClient<Channel>,
    first: ListCgroupsResponse,
    state: State,
) -> Result<(), CliError> {
    let mut terminal = ratatui::try_init()?;
    let result = live(&mut terminal, client, first, state).await;
    ratatui::try_restore()?;
    result
}

async fn live(
    terminal: &mut DefaultTerminal,
    mut client: NodewardenClient<Channel>,
    first: ListCgroupsResponse,
    mut state: State,
) -> Result<(), CliError> {
    let mut inputs = inputs();
    let rows = rates::rows(None, &first);
    let mut shown = Shown {
        node: header::node(&first, &rows),
        agent: String::new(),
        list: first,
        rows,
        answered: Instant::now(),
        error: None,
    };
    // The first rates after at most half a second, then at the user's interval.
    let mut due = Instant::now() + state.interval.min(Duration::from_millis(500));
    while !state.quit {
        let rows = state.pick(&shown.rows);
        let count = rows.len();
        let trouble = shown.trouble();
        let height = terminal.size()?.height;
        let view = View {
            node: &shown.node,
            agent: &shown.agent,
            trouble: trouble.as_deref(),
            rows: &rows,
            state: &state,
        };
        terminal.draw(|frame| draw(frame, &view))?;
        tokio::select! {
            input = inputs.recv() => match input {
                Some(Input::Key(key)) => {
                    let interval = state.interval;
                    state.press(key, page(height), count);
                    if state.interval != interval {
                        due = Instant::now() + state.interval;
                    }
                }
                Some(Input::Resized) => {}
                // The terminal was closed.
                None => return Ok(()),
            },
            () = tokio::time::sleep_until(due.into()) => {
                shown.renew(&mut client).await;
                due = Instant::now() + state.interval;
                // There may be fewer rows now.
                state.offset = state.offset.min(state.pick(&shown.rows).len().saturating_sub(1));
            }
        }
    }
    Ok(())
}

impl Shown {
    /// Queries the agent. Without a response the old figures stay, marked as outdated.
    async fn renew(&mut self, client: &mut NodewardenClient<Channel>) {
        let asked = async {
            let now = list(client).await?;
            let status = client.get_status(GetStatusRequest {}).await.map_err(CliError::call("GetStatus"))?;
            Ok::<(ListCgroupsResponse, GetStatusResponse), CliError>((now, status.into_inner()))
        };
        match asked.await {
            Ok((now, status)) => {
                self.rows = rates::rows(Some(&self.list), &now);
                self.node = header::node(&now, &self.rows);
                self.agent = header::agent(&status);
                self.list = now;
                self.answered = Instant::now();
                self.error = None;
            }
            Err(e) => self.error = Some(e.to_string()),
        }
    }

    fn trouble(&self) -> Option<String> {
        let error = self.error.as_ref()?;
        Some(format!("no answer for {}, trying again: {error}", span(self.answered.elapsed())))
    }
}

/// Keys and resizes, read on a separate thread that ends when the receiver is dropped.
fn inputs() -> mpsc::Receiver<Input> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            match event::poll(KEY_POLL).and_then(|ready| ready.then(event::read).transpose()) {
                Ok(None) => {}
                Ok(Some(event)) => {
                    if let Some(input) = translate(event)
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

fn translate(event: Event) -> Option<Input> {
    let key = match event {
        Event::Resize(..) => return Some(Input::Resized),
        Event::Key(key) if key.kind == KeyEventKind::Press => key,
        _ => return None,
    };
    let key = match key.code {
        KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Quit,
        KeyCode::Esc => Key::Quit,
        KeyCode::Char(c) => Key::Char(c.to_ascii_lowercase()),
        KeyCode::Tab => Key::Tab,
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
