//! `mainstay ui`: opens the dashboard of the daemon, or of a program that serves, logged in.

use std::env;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use mainstay_bridge::RuntimeDirectory;
use mainstay_control::api::{ActorKind, EventDetail, EventMessage, PageLink};
use mainstay_control::{ControlClient, ControlError, EventStream, token_from_file};
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::admin::default_token_file;
use crate::browser::{self, BROWSER_TIMEOUT};
use crate::exit::{CommandFailure, Done, Exit};
use crate::output::{Screen, plain, text};
use crate::run::Signals;

/// Where `mainstay serve` listens, by default.
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:7332";

/// Open the dashboard in a browser
///
/// It is the one of the daemon, if a daemon runs, and otherwise the one of `mainstay serve --admin`. The browser gets a link that logs the page in, by a file that no other user can read. It works once, and for a minute.
#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    /// Where `mainstay serve --admin` listens [default: the daemon, or http://127.0.0.1:7332 if none runs]
    #[arg(long)]
    url: Option<String>,
    /// The token file of `mainstay serve --admin`, if that was started with another one than its own
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// Print the address instead of opening it. Do not put it into a command line, which all users can read
    #[arg(long, conflicts_with = "code")]
    print: bool,
    /// Open a page that asks for a code, for a browser that cannot read the private file
    #[arg(long)]
    code: bool,
}

pub(crate) fn run(arguments: &UiArgs, screen: &Screen) -> Done {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CommandFailure::failed)?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            done = show(arguments, screen) => done,
            exit = signals.next() => Ok(exit),
        }
    })
}

/// Opens the page, and waits until the browser has used the link.
async fn show(arguments: &UiArgs, screen: &Screen) -> Done {
    let mut opening = Opening::begin(arguments).await?;
    let print = |opening: &Opening| screen.print(text!("{}", plain(&opening.address())));
    if arguments.print {
        print(&opening)?;
        return Ok(Exit::Success);
    }
    let address = opening.address();
    let Some(mut handover) = browser::open(&address, arguments.code, screen).await else {
        print(&opening)?;
        return Ok(Exit::Success);
    };
    if let Some(code) = handover.code() {
        screen.say(text!(
            "the browser asks for this code, within a minute: {}",
            plain(code)
        ));
    }
    let outcome = tokio::select! {
        used = opening.used() => used.map(|()| Outcome::Used)?,
        () = handover.failed() => Outcome::NoBrowser,
        () = sleep(BROWSER_TIMEOUT) => Outcome::TimedOut,
    };
    match outcome {
        Outcome::Used => {
            screen.note(text!("opened {}/ui/", plain(&opening.base)));
            Ok(Exit::Success)
        }
        Outcome::NoBrowser => {
            print(&opening)?;
            Ok(Exit::Success)
        }
        Outcome::TimedOut => Err(CommandFailure::failed(anyhow!(
            "no browser opened the page within a minute; `mainstay ui --code` is for one that cannot read private files, and \
             `mainstay ui --print` prints the address"
        ))),
    }
}

enum Outcome {
    Used,
    NoBrowser,
    TimedOut,
}

/// A link to the page, and where the page is.
struct Opening {
    base: String,
    link: PageLink,
    /// From before the link was made, so that its use is among them.
    events: EventStream,
}

impl Opening {
    async fn begin(arguments: &UiArgs) -> Result<Self, CommandFailure> {
        if arguments.url.is_none()
            && let Ok(directory) = RuntimeDirectory::find(|name| env::var_os(name))
            // A connection would start a daemon whose socket systemd holds.
            && directory.has_daemon()
        {
            let client = ControlClient::unix(directory.socket()).via(ActorKind::Command);
            match link(&client).await {
                Ok((events, link)) => {
                    let base = link.address.clone().ok_or_else(|| {
                        CommandFailure::failed(anyhow!("the daemon does not say where its page is"))
                    })?;
                    return Ok(Self { base, link, events });
                }
                Err(ControlError::Unreachable(_)) => {}
                Err(error) => return Err(CommandFailure::failed(error)),
            }
        }
        let base = arguments.url.as_deref().unwrap_or(DEFAULT_ADDRESS);
        let base = base.trim_end_matches('/');
        let client = admin_client(base, arguments.admin_token_file.as_deref())?;
        let (events, link) = link(&client)
            .await
            .with_context(|| format!("no daemon runs, and there is no dashboard at {base}: start one with `mainstay daemon start` or `mainstay serve --admin`"))
            .map_err(CommandFailure::failed)?;
        // The very address that has answered: a name may have others, where another program listens.
        let base = format!("http://{}", address(base)?);
        Ok(Self { base, link, events })
    }

    /// The address of the page. It holds a secret.
    fn address(&self) -> String {
        format!("{}{}", self.base, self.link.path)
    }

    /// Completes when a browser has used the link.
    async fn used(&mut self) -> Result<(), CommandFailure> {
        loop {
            let next = self.events.next().await;
            let ended =
                || CommandFailure::failed(anyhow!("mainstay ended before the browser opened the page"));
            match next.ok_or_else(ended)?.map_err(CommandFailure::failed)? {
                EventMessage::Event(record) => match record.detail {
                    EventDetail::PageLinkUsed { link, .. } if link == self.link.link => return Ok(()),
                    _other => {}
                },
                EventMessage::Lagged(_) => {}
            }
        }
    }
}

async fn link(client: &ControlClient) -> Result<(EventStream, PageLink), ControlError> {
    let events = client.events(None, 0).await?;
    Ok((events, client.page_link().await?))
}

/// A client for the control API of `mainstay serve --admin` at this address.
pub(crate) fn admin_client(url: &str, token_file: Option<&Path>) -> Result<ControlClient, CommandFailure> {
    let address = address(url.trim_end_matches('/'))?;
    let file = token_file.map(Path::to_owned).or_else(default_token_file);
    let file = file.ok_or_else(|| {
        CommandFailure::usage(anyhow!(
            "neither XDG_STATE_HOME nor HOME is set: name the token file with --admin-token-file"
        ))
    })?;
    let token = token_from_file(&file).map_err(CommandFailure::usage)?;
    Ok(ControlClient::tcp(address, token).via(ActorKind::Command))
}

/// The address in a URL of plain HTTP. The code must not travel where others can read it.
fn address(url: &str) -> Result<SocketAddr, CommandFailure> {
    let wrong = |why: &str| CommandFailure::usage(anyhow!("--url {url}: {why}"));
    let authority = url
        .strip_prefix("http://")
        .ok_or_else(|| wrong("it must begin with http:// and name this machine"))?;
    let mut addresses = authority
        .to_socket_addrs()
        .map_err(|_| wrong("it must be http://HOST:PORT"))?;
    addresses
        .find(|address| address.ip().is_loopback())
        .ok_or_else(|| {
            wrong("the dashboard is opened on the machine that serves it, such as at http://127.0.0.1:7332")
        })
}
