//! `mainstay ui`: opens the dashboard of the daemon, or of a program that serves, logged in.

use std::env;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow};
use clap::Args;
use mainstay_bridge::RuntimeDirectory;
use mainstay_control::api::{ActorKind, PageLink};
use mainstay_control::{ControlClient, ControlError, token_from_file};
use tokio::runtime::Builder;

use crate::admin::default_token_file;
use crate::exit::{CommandFailure, Done, Exit};
use crate::output::{Screen, plain, text};

/// Where `mainstay serve` listens, by default.
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:7332";

/// Open the dashboard in a browser
///
/// It is the one of the daemon, if a daemon runs, and otherwise the one of `mainstay serve --admin`. The address that is opened holds a code that logs the page in. It works once, and for a minute.
#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    /// Where `mainstay serve --admin` listens [default: the daemon, or http://127.0.0.1:7332 if none runs]
    #[arg(long)]
    url: Option<String>,
    /// The token file of `mainstay serve --admin`, if that was started with another one than its own
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// Print the address instead of opening it
    #[arg(long)]
    print: bool,
}

pub(crate) fn run(arguments: &UiArgs, screen: &Screen) -> Done {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CommandFailure::failed)?;
    let (base, link) = runtime.block_on(link(arguments))?;
    let page = format!("{base}{}", link.path);
    if arguments.print || open(&page).is_err() {
        screen.print(text!("{}", plain(&page)))?;
        return Ok(Exit::Success);
    }
    screen.note(text!("opened {}/ui/", plain(&base)));
    Ok(Exit::Success)
}

/// A link to the page, and where the page is.
async fn link(arguments: &UiArgs) -> Result<(String, PageLink), CommandFailure> {
    if arguments.url.is_none()
        && let Ok(directory) = RuntimeDirectory::find(|name| env::var_os(name))
        // A connection would start a daemon whose socket systemd holds.
        && directory.has_daemon()
    {
        let client = ControlClient::unix(directory.socket()).via(ActorKind::Command);
        match client.page_link().await {
            Ok(link) => {
                let address = link.address.clone();
                let address = address.ok_or_else(|| {
                    CommandFailure::failed(anyhow!("the daemon does not say where its page is"))
                })?;
                return Ok((address, link));
            }
            Err(ControlError::Unreachable(_)) => {}
            Err(error) => return Err(CommandFailure::failed(error)),
        }
    }
    let base = arguments.url.as_deref().unwrap_or(DEFAULT_ADDRESS);
    let base = base.trim_end_matches('/');
    let client = admin_client(base, arguments.admin_token_file.as_deref())?;
    let link = client
        .page_link()
        .await
        .with_context(|| format!("no daemon runs, and there is no dashboard at {base}: start one with `mainstay daemon start` or `mainstay serve --admin`"))
        .map_err(CommandFailure::failed)?;
    Ok((base.to_owned(), link))
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

/// Opens an address in the browser of this user.
fn open(link: &str) -> io::Result<()> {
    let chosen = env::var("BROWSER").ok().filter(|browser| !browser.is_empty());
    let program = chosen.unwrap_or_else(|| {
        if cfg!(target_os = "macos") {
            "open"
        } else {
            "xdg-open"
        }
        .to_owned()
    });
    let status = Command::new(program)
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other("the browser did not open")),
    }
}
