//! `mainstay top`: the servers of the running daemon in a live view of the terminal.
//!
//! `model` holds what is seen and decides what a key does; it reads no clock and does no IO. `view` draws it. `feed` brings
//! what happens from the control API, `terminal` prepares the terminal and restores it however the program ends. The loop
//! here waits for one input, hands it to the model, carries out what the model asks for, and draws.
//!
//! States come from the event stream. Figures that have no events (calls, latency, memory) are asked for once a second.

mod feed;
mod model;
mod terminal;
mod view;

use std::env;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use clap::Args;
use mainstay_bridge::RuntimeDirectory;
use mainstay_control::ControlClient;
use mainstay_control::api::ActorKind;
use ratatui::crossterm::event::{Event, KeyEventKind};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::args::Common;
use crate::exit::{CommandFailure, Done, Exit};
use crate::output::Screen;
use crate::ui::admin_client;

use feed::Feed;
use model::{TopModel, TopRequest};
use terminal::TopTerminal;

/// How often countdowns are drawn. The figures come as often.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// How long a request may take: a restart waits until the old process is gone.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How many inputs may wait to be shown. Those who send them wait, too.
const INPUT_LIMIT: usize = 256;

/// Watch the servers of the daemon, and control them, in the terminal
///
/// Shows each server with its state, the time to the next attempt, calls a second, latency and memory. `?` shows the keys.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys:
  up, down, k, j  select a server       r  restart it
  l               follow its stderr     e  enable it
  t, Enter        see its tools         d  disable it
  Esc             back to the list      q  quit, ?  help")]
pub(crate) struct TopArgs {
    /// The socket of the control API [default: that of the daemon]
    #[arg(long, value_name = "SOCKET", conflicts_with = "url")]
    pub(crate) socket: Option<PathBuf>,
    /// Where `mainstay serve --admin` listens, to watch its servers
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// The token file of `mainstay serve --admin`, if that was started with another one than its own
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) admin_token_file: Option<PathBuf>,
}

pub(crate) fn run(top: &TopArgs, _: &Common, screen: &Screen) -> Done {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !is_terminal || env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty()) {
        let remedy = "`mainstay top` needs a terminal that redraws; `mainstay status` prints the same once";
        return Err(CommandFailure::usage(anyhow!(remedy)));
    }
    let client = match (&top.url, &top.socket) {
        (Some(url), _) => admin_client(url, top.admin_token_file.as_deref())?,
        (None, Some(socket)) => ControlClient::unix(socket.clone()),
        (None, None) => {
            let directory = RuntimeDirectory::find(|name| env::var_os(name));
            ControlClient::unix(directory.map_err(CommandFailure::failed)?.socket())
        }
    };
    let client = client.via(ActorKind::Top).timeout(REQUEST_TIMEOUT);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CommandFailure::failed)?;
    let shown = runtime.block_on(show(client, screen.out.is_coloured()));
    runtime.shutdown_background();
    shown.map_err(CommandFailure::failed)
}

/// What the loop waits for.
enum TopInput {
    Terminal(Event),
    Feed(feed::FeedMessage),
    Tick,
    Signal(Exit),
}

async fn show(client: ControlClient, is_coloured: bool) -> anyhow::Result<Exit> {
    let (sender, mut inputs) = mpsc::channel(INPUT_LIMIT);
    let mut feed = Feed::start(client, sender.clone());
    send_signals(&sender)?;
    let mut terminal = TopTerminal::open()?;
    terminal::send_keys(sender.clone());
    send_ticks(sender);
    let mut model = TopModel::new();
    loop {
        terminal.draw(|frame| view::draw(frame, &model, now_ms(), is_coloured))?;
        let Some(input) = inputs.recv().await else {
            return Ok(Exit::Success);
        };
        let request = match input {
            TopInput::Terminal(Event::Key(key)) if key.kind != KeyEventKind::Release => model.key(key),
            // Drawn again at the new size.
            TopInput::Terminal(_) | TopInput::Tick => None,
            TopInput::Feed(message) => {
                model.feed(message);
                None
            }
            TopInput::Signal(exit) => return Ok(exit),
        };
        match request {
            Some(TopRequest::Quit) => return Ok(Exit::Success),
            Some(TopRequest::Command(command, server)) => feed.command(command, server),
            Some(TopRequest::Stderr(server)) => feed.follow_stderr(server),
            Some(TopRequest::Tools(server)) => feed.tools(server),
            Some(TopRequest::Leave) => feed.leave(),
            None => {}
        }
    }
}

fn send_signals(sender: &mpsc::Sender<TopInput>) -> anyhow::Result<()> {
    let signals = [
        (SignalKind::terminate(), Exit::Terminated),
        (SignalKind::hangup(), Exit::Terminated),
        (SignalKind::interrupt(), Exit::Interrupted),
    ];
    for (kind, exit) in signals {
        let mut signal = signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            signal.recv().await;
            let _ = sender.send(TopInput::Signal(exit)).await;
        });
    }
    Ok(())
}

fn send_ticks(sender: mpsc::Sender<TopInput>) {
    tokio::spawn(async move {
        let mut ticks = interval(REDRAW_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if sender.send(TopInput::Tick).await.is_err() {
                return;
            }
        }
    });
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
