//! The live table and pages: queries the agent, draws, handles keys.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::{GetStatusRequest, GetStatusResponse, ListCgroupsResponse};
use ratatui::DefaultTerminal;
use tonic::transport::Channel;

use super::draw::{page_room, room};
use super::keys::{Input, inputs};
use super::news::Feed;
use super::page::details::Details;
use super::rates::Row;
use super::shown::Shown;
use super::state::{Key, Seen, State};
use super::{CliError, list};
use crate::cli::client;

/// How often the line is drawn again that says for how long there was no answer.
const TICK: Duration = Duration::from_secs(1);

/// What the agent says.
type Answer = Result<(ListCgroupsResponse, GetStatusResponse), CliError>;
/// A question that is on its way.
type Asked = Pin<Box<dyn Future<Output = Answer>>>;

/// Shows the live table until the user quits; the terminal is restored in any case.
pub async fn run(channel: Channel, first: ListCgroupsResponse, state: State) -> Result<(), CliError> {
    let mut terminal = ratatui::try_init()?;
    let result = live(&mut terminal, channel, first, state).await;
    ratatui::try_restore()?;
    result
}

async fn live(
    terminal: &mut DefaultTerminal,
    channel: Channel,
    first: ListCgroupsResponse,
    mut state: State,
) -> Result<(), CliError> {
    let mut inputs = inputs();
    let mut shown = Shown::new(first);
    let (mut feed, mut asked): (Option<Feed>, Option<Asked>) = (None, None);
    // The first rates after at most half a second, then at the user's interval.
    let mut due = Instant::now() + state.interval.min(Duration::from_millis(500));
    while !state.quit {
        let mut last = 0;
        terminal.draw(|frame| last = shown.draw(frame, &mut state, Timestamp::now()))?;
        tokio::select! {
            input = inputs.recv() => match input {
                Some(Input::Key(key)) => {
                    let before = (state.interval, state.page.as_ref().map(|page| page.path.clone()));
                    press(&mut state, key, &shown.rows, terminal.size()?.into(), last);
                    if state.interval != before.0 {
                        due = Instant::now() + state.interval;
                    }
                    if state.page.as_ref().map(|page| &page.path) != before.1.as_ref() {
                        shown.details = Details::default();
                        let pod = state.page.as_ref().map(|page| page.pod.as_str()).filter(|pod| !pod.is_empty());
                        feed = pod.map(|pod| Feed::open(&channel, pod));
                    }
                }
                Some(Input::Resized) => {}
                // The terminal was closed.
                None => return Ok(()),
            },
            answer = answer(&mut asked) => {
                asked = None;
                shown.take(answer);
                due = Instant::now() + state.interval;
            }
            () = news(&mut feed, &mut shown.details) => {}
            () = tokio::time::sleep_until(due.into()), if asked.is_none() => asked = Some(ask(&channel)),
            () = tokio::time::sleep(TICK), if asked.is_some() => {}
        }
    }
    Ok(())
}

fn press(state: &mut State, key: Key, all: &[Row], size: (u16, u16), last: usize) {
    let rows = state.pick(all);
    let (width, height) = size;
    let lines = page_room(width, height);
    state.press(key, &Seen { all, rows: &rows, room: room(height), lines, last });
}

/// Queries the agent; nothing waits for it.
fn ask(channel: &Channel) -> Asked {
    let mut client = client::service(channel.clone());
    Box::pin(async move {
        let now = list(&mut client).await?;
        let status = client.get_status(GetStatusRequest {}).await.map_err(CliError::call("GetStatus"))?;
        Ok((now, status.into_inner()))
    })
}

async fn answer(asked: &mut Option<Asked>) -> Answer {
    match asked {
        Some(asked) => asked.await,
        None => pending().await,
    }
}

async fn news(feed: &mut Option<Feed>, details: &mut Details) {
    match feed {
        Some(feed) => feed.next(details).await,
        None => pending().await,
    }
}
