//! What happens in the daemon, from its control API. If the daemon goes away, the feed looks for it once a second.

use std::time::Duration;

use mainstay_control::api::{
    CatalogDocument, EventDetail, EventMessage, EventRecord, LagMarker, ServerList, StderrRecord,
};
use mainstay_control::{ControlClient, ControlError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::TopInput;

/// How often figures without events are asked for.
const FIGURES_INTERVAL: Duration = Duration::from_secs(1);

/// How long the feed waits before it looks again for a daemon that is gone.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How many lines of stderr are shown of what was written before.
const STDERR_LINES: usize = 200;

/// What a person wants done to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopCommand {
    Restart,
    Enable,
    Disable,
}

impl TopCommand {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Enable => "enable",
            Self::Disable => "disable",
        }
    }
}

/// What the feed brings.
#[derive(Debug)]
pub(super) enum FeedMessage {
    /// The daemon answers; all servers.
    Servers(ServerList),
    /// Something happened to a server.
    Event(Box<EventRecord>),
    /// The daemon does not answer.
    Gone(String),
    /// A command was carried out, or refused with this reason.
    Commanded(TopCommand, String, Result<(), String>),
    /// A line of stderr of the server that is followed, or how many are missing.
    Stderr(Result<StderrRecord, LagMarker>),
    /// What a server offers, or why that is not known.
    Tools(Result<Box<CatalogDocument>, String>),
}

/// The tasks that bring messages.
pub(super) struct Feed {
    client: ControlClient,
    sender: mpsc::Sender<TopInput>,
    /// What the person looks at beside the list: dropped, it ends.
    detail: Option<DetailTask>,
}

/// A task that ends when it is no longer looked at.
struct DetailTask(JoinHandle<()>);

impl Drop for DetailTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Feed {
    pub(super) fn start(client: ControlClient, sender: mpsc::Sender<TopInput>) -> Self {
        tokio::spawn(watch(client.clone(), sender.clone()));
        Self {
            client,
            sender,
            detail: None,
        }
    }

    /// Has a command carried out. What became of it is a message.
    pub(super) fn command(&self, command: TopCommand, server: String) {
        let (client, sender) = (self.client.clone(), self.sender.clone());
        tokio::spawn(async move {
            let done = match command {
                TopCommand::Restart => client.restart(&server).await,
                TopCommand::Enable => client.enable(&server).await,
                TopCommand::Disable => client.disable(&server).await,
            };
            let done = done.map(drop).map_err(|error| error.to_string());
            send(&sender, FeedMessage::Commanded(command, server, done)).await;
        });
    }

    /// Follows the stderr of a server, in place of what was looked at before.
    pub(super) fn follow_stderr(&mut self, server: String) {
        let (client, sender) = (self.client.clone(), self.sender.clone());
        self.look_at(async move {
            let Ok(mut lines) = client.follow_stderr(&server, STDERR_LINES).await else {
                return;
            };
            while let Some(Ok(line)) = lines.next().await {
                send(&sender, FeedMessage::Stderr(line)).await;
            }
        });
    }

    /// Asks for what a server offers.
    pub(super) fn tools(&mut self, server: String) {
        let (client, sender) = (self.client.clone(), self.sender.clone());
        self.look_at(async move {
            let catalog = client.catalog(&server).await;
            let catalog = catalog.map(Box::new).map_err(|error| error.to_string());
            send(&sender, FeedMessage::Tools(catalog)).await;
        });
    }

    /// Looks at nothing but the list.
    pub(super) fn leave(&mut self) {
        self.detail = None;
    }

    fn look_at(&mut self, look: impl Future<Output = ()> + Send + 'static) {
        self.detail = Some(DetailTask(tokio::spawn(look)));
    }
}

async fn send(sender: &mpsc::Sender<TopInput>, message: FeedMessage) -> bool {
    sender.send(TopInput::Feed(message)).await.is_ok()
}

/// Watches the daemon for as long as the view is open.
async fn watch(client: ControlClient, sender: mpsc::Sender<TopInput>) {
    let mut last_id = None;
    loop {
        let error = match follow(&client, &sender, &mut last_id).await {
            Ok(()) => return,
            Err(error) => error,
        };
        if !send(&sender, FeedMessage::Gone(error.to_string())).await {
            return;
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// Follows the events until the daemon goes away. Returns without an error if the view is closed.
async fn follow(
    client: &ControlClient,
    sender: &mpsc::Sender<TopInput>,
    last_id: &mut Option<String>,
) -> Result<(), ControlError> {
    let mut events = match last_id.as_deref() {
        Some(id) => client.events_after(None, id).await?,
        None => client.events(None, 0).await?,
    };
    let mut figures = interval_at(Instant::now(), FIGURES_INTERVAL);
    figures.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let wants_list = tokio::select! {
            _ = figures.tick() => true,
            message = events.next() => {
                let Some(message) = message else { return Err(ended()) };
                last_id.clone_from(&events.last_id().map(str::to_owned));
                match on_message(message?, sender).await {
                    Some(wants_list) => wants_list,
                    None => return Ok(()),
                }
            }
        };
        if wants_list {
            let list = client.servers(true).await?;
            figures.reset();
            if !send(sender, FeedMessage::Servers(list)).await {
                return Ok(());
            }
        }
    }
}

/// Passes an event on. Returns whether the list of servers must be asked for; `None` if the view is closed.
async fn on_message(message: EventMessage, sender: &mpsc::Sender<TopInput>) -> Option<bool> {
    let record = match message {
        // What is missing shows in the list.
        EventMessage::Lagged(_) => return Some(true),
        EventMessage::Event(record) => record,
    };
    let wants_list = match record.detail {
        EventDetail::Added
        | EventDetail::Removed
        | EventDetail::Reloaded { .. }
        | EventDetail::Lost { .. } => true,
        EventDetail::Transition { .. }
        | EventDetail::Command { .. }
        | EventDetail::CatalogChanged { .. }
        | EventDetail::PageLinkUsed { .. }
        | EventDetail::ReloadRefused { .. }
        | EventDetail::Unknown => false,
    };
    send(sender, FeedMessage::Event(record))
        .await
        .then_some(wants_list)
}

/// The daemon closed the stream of events.
fn ended() -> ControlError {
    ControlError::Unreachable(std::io::ErrorKind::UnexpectedEof.into())
}
