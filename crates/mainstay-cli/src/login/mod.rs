//! `mainstay login`: a person logs in to a server, in a browser or with a code.
//!
//! The browser's answer arrives at a port of this machine. Where the browser runs on another machine, the person pastes the
//! address that it was sent to. Whichever comes first counts.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::anyhow;
use clap::Args;
use mainstay::ServerConfig;
use mainstay::config::{HttpTarget, OAuthSetting, Target, parse_duration};
use mainstay::gateway::PlainText;
use mainstay_login::{
    LoginFailure, LoginPrompt, LoginProvider, LoginRequest, LoginSummary, StartedLogin, StoreProtection,
};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};

use crate::args::Common;
use crate::audit;
use crate::browser::{self, Handover};
use crate::exit::{CommandFailure, Done, Exit};
use crate::json::LoggedInDocument;
use crate::logins::{protect_with, provider_of, server_named};
use crate::output::{Screen, Text, plain, span, text};
use crate::reach::literal;
use crate::run::Signals;

/// Log in to a server that asks for it
///
/// The login is kept and renewed, and every mainstay of this user uses it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay login search
  mainstay login https://mcp.example.com/mcp --no-browser
  mainstay login search --device --scope files:read")]
pub(crate) struct LoginArgs {
    /// A configured server, or the address of one
    #[arg(value_name = "SERVER|URL")]
    pub(crate) server: String,
    /// Print the address instead of opening a browser
    #[arg(long, conflicts_with = "device")]
    pub(crate) no_browser: bool,
    /// Open a page that asks for a code, for a browser that cannot read the private file which opens the address otherwise
    #[arg(long, conflicts_with_all = ["device", "no_browser"])]
    pub(crate) code: bool,
    /// Show a code to enter on another device
    #[arg(long)]
    pub(crate) device: bool,
    /// Ask for this scope, in place of those that the server names; may be given more than once
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Register Mainstay as a new client: the authorization server does not know the registration of an earlier login any more
    #[arg(long)]
    pub(crate) register_again: bool,
    /// How long the login waits for you
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Encrypt all logins with a key that the system keyring keeps. It applies to all Mainstay processes of this user
    #[arg(long, conflicts_with_all = ["key_file", "key_command"])]
    pub(crate) keyring: bool,
    /// Encrypt all logins with the key in this file: 32 bytes, or their base64. It applies to all Mainstay processes of this user
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Encrypt all logins with the key that this command prints, such as `pass show mainstay`
    #[arg(long, value_name = "COMMAND", conflicts_with = "key_file")]
    pub(crate) key_command: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &LoginArgs, common: &Common, screen: &Screen) -> Done {
    if let Some(protection) = protection(arguments) {
        protect_with(protection)?;
    }
    let server = server_named(&arguments.server, common)?;
    let provider = provider_of(&server)?;
    if let Some(configured) = &provider.settings().client.configured
        && arguments.register_again
    {
        return Err(CommandFailure::usage(anyhow!(
            "the configuration of server {} names its client ({}), which Mainstay does not register: register one at the authorization server \
             and set `client_id`",
            server.name(),
            configured.id
        )));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CommandFailure::failed)?;
    let done = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            done = log_in(arguments, &server, &provider, screen) => done,
            exit = signals.next() => Ok(exit),
        }
    });
    // A read of the terminal may still be under way, and its result is not needed.
    runtime.shutdown_background();
    audit::keep(Some(server.name()), "login", &done);
    done
}

/// How the person wants logins to be protected.
fn protection(arguments: &LoginArgs) -> Option<StoreProtection> {
    let words = |command: &String| command.split_ascii_whitespace().map(str::to_owned).collect();
    let of_command = arguments.key_command.as_ref().map(words);
    let of_command = of_command.map(StoreProtection::KeyCommand);
    let of_file = arguments.key_file.clone().map(StoreProtection::KeyFile);
    let of_keyring = arguments.keyring.then_some(StoreProtection::Keyring);
    of_file.or(of_command).or(of_keyring)
}

async fn log_in(
    arguments: &LoginArgs,
    server: &ServerConfig,
    provider: &LoginProvider,
    screen: &Screen,
) -> Done {
    let mut request = LoginRequest::default();
    request.device = arguments.device;
    request.register_again = arguments.register_again;
    request.timeout = Some(arguments.timeout);
    request.scopes = (!arguments.scope.is_empty()).then(|| arguments.scope.clone());
    let done = async {
        let mut login = provider.login(request).await.map_err(anyhow::Error::from)?;
        let prompted = prompt(arguments, login.prompt(), screen).await;
        let again = login
            .reuses_registration()
            .then(|| register_again(&arguments.server));
        if let Some(again) = &again {
            screen.say(text!(
                "if the browser says that the client is unknown, the authorization server has forgotten Mainstay: end this with Ctrl-C and run `{}`",
                plain(again)
            ));
        }
        let ended = wait(&mut login, prompted.reads_pasted, screen).await;
        // What was made for the browser stays until then.
        drop(prompted);
        match (ended, again) {
            (Err(failure), Some(again)) if failure.may_be_unknown_client() => {
                Err(anyhow!("{failure}: `{again}`"))
            }
            (Err(failure), Some(_) | None) => Err(failure.into()),
            (Ok(summary), _) => Ok(summary),
        }
    };
    let summary = done.await;
    if arguments.json {
        let stored = provider.store().describe();
        let document = LoggedInDocument::of(server, provider, summary.as_ref(), &stored);
        screen.print(Text::document(&document))?;
        return Ok(if summary.is_ok() {
            Exit::Success
        } else {
            Exit::Failed
        });
    }
    let summary = summary.map_err(CommandFailure::failed)?;
    screen.print(said(server, &summary))?;
    Ok(Exit::Success)
}

/// What a person was told.
#[derive(Default)]
struct Prompted {
    /// Whether an address may be pasted.
    reads_pasted: bool,
    _handover: Option<Handover>,
}

/// Tells the person what to do.
async fn prompt(arguments: &LoginArgs, prompt: &LoginPrompt, screen: &Screen) -> Prompted {
    let address = match prompt {
        LoginPrompt::Nothing => return Prompted::default(),
        LoginPrompt::EnterCode(prompt) => {
            let page = prompt.verification_uri.to_string();
            screen.say(text!(
                "open {} on any device and enter the code {}",
                plain(&page),
                plain(&prompt.user_code)
            ));
            if let Some(whole) = &prompt.verification_uri_complete {
                screen.say(text!("or open {}", plain(whole.as_str())));
            }
            return Prompted::default();
        }
        LoginPrompt::Browse(address) => address.url().as_str(),
    };
    let handover = match arguments.no_browser {
        true => None,
        false => browser::open(address, arguments.code, screen).await,
    };
    match handover.as_ref().map(Handover::code) {
        Some(Some(code)) => screen.say(text!(
            "the browser asks for the code {}; if it does not, open this address:",
            plain(code)
        )),
        Some(None) => {
            screen.say("the browser should show the login now; if it does not, open this address:");
        }
        None => screen.say("open this address in a browser:"),
    }
    screen.say(text!("  {}", plain(address)));
    let may_paste = arguments.no_browser || std::io::stdin().is_terminal();
    if may_paste {
        screen.say(
            "if the browser is on another machine, it ends at an address that it cannot load: paste that address here",
        );
    }
    Prompted {
        reads_pasted: may_paste,
        _handover: handover,
    }
}

/// Waits for the browser's answer, or for a pasted address.
async fn wait(
    login: &mut StartedLogin,
    reads_pasted: bool,
    screen: &Screen,
) -> Result<LoginSummary, LoginFailure> {
    let mut pasted = reads_pasted.then(|| BufReader::new(tokio::io::stdin()).lines());
    loop {
        let line = tokio::select! {
            done = login.finished() => return done,
            line = next_line(&mut pasted) => line,
        };
        let Some(line) = line else {
            // The input has ended, so no address can be pasted. The browser may still answer.
            pasted = None;
            continue;
        };
        if line.trim().is_empty() {
            continue;
        }
        if let Err(reason) = login.paste(&line).await {
            screen.warning(text!("not accepted: {}", plain(&reason)));
        }
    }
}

/// The command that logs in as a client that is registered anew.
fn register_again(server: &str) -> String {
    format!("{} --register-again", command(server))
}

async fn next_line(pasted: &mut Option<Lines<BufReader<Stdin>>>) -> Option<String> {
    match pasted {
        Some(lines) => lines.next_line().await.ok().flatten(),
        None => std::future::pending().await,
    }
}

fn said(server: &ServerConfig, summary: &LoginSummary) -> Text {
    let mut said = text!(
        "logged in to {} at {}",
        plain(server.name()),
        plain(&summary.issuer)
    );
    if !summary.scopes.is_empty() {
        said.push(text!(", scopes {}", plain(&summary.scopes.join(" "))));
    }
    if let Some(at) = summary.expires_at {
        let left = at.duration_since(SystemTime::now()).unwrap_or_default();
        said.push(text!(", the token expires in {}", span(left)));
        said.push(if summary.renewable {
            " and is renewed"
        } else {
            " and cannot be renewed"
        });
    }
    said.push("\n");
    said
}

/// Whether a login can help: not if the configuration has a token, or turns logins off.
pub(crate) fn can_help(target: &HttpTarget) -> bool {
    !target.has_credentials() && *target.oauth() != OAuthSetting::Off
}

/// The servers that no login can help, as far as is known.
pub(crate) fn without_login(servers: &[ServerConfig]) -> BTreeSet<String> {
    let is_without = |server: &&ServerConfig| match server.target() {
        Target::Http(target) => !can_help(target),
        // What it lacks here may be its token.
        Target::Unusable(_) => true,
        _ => false,
    };
    let servers = servers.iter().filter(is_without);
    servers.map(|server| server.name().to_owned()).collect()
}

/// The command that logs in to a server, by its name or its address, as a shell takes it.
pub(crate) fn command(server: &str) -> String {
    format!("mainstay login {}", literal(PlainText::line(server).as_str()))
}
