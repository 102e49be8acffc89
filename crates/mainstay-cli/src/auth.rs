//! `mainstay auth status`: which logins there are, and what they are good for.

use std::time::SystemTime;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use mainstay::ServerConfig;
use mainstay::config::{OAuthSetting, Target};
use mainstay_login::{LoginKey, LoginStore, ReadLogin};

use crate::args::Common;
use crate::exit::{CommandFailure, Done, Exit};
use crate::json::AuthStatusDocument;
use crate::login;
use crate::logins::{configured, logins, server_named};
use crate::output::{Screen, Text, plain, span, text};

/// Show the logins of servers
#[derive(Debug, Args)]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    pub(crate) command: AuthCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Show who is logged in where, until when, and where it is kept
    Status(AuthStatusArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AuthStatusArgs {
    /// Only this server, by its name or its address
    #[arg(value_name = "SERVER|URL")]
    pub(crate) server: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is known of one server's login.
pub(crate) struct AuthStatus {
    /// The name in the configuration; `None` for a login that no configured server uses.
    pub(crate) server: Option<String>,
    pub(crate) address: String,
    /// Whether a login is made by the name.
    is_configured: bool,
    pub(crate) state: AuthState,
    pub(crate) login: Option<ReadLogin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthState {
    /// There is a login that can be used.
    LoggedIn,
    /// The token has expired, and cannot be renewed.
    Expired,
    /// The authorization server ended the login.
    Ended,
    /// There is no login. The server may need none.
    LoggedOut,
    /// The configuration has a token or an `Authorization` header, or turns logins off.
    NotUsed,
}

impl AuthState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::LoggedIn => "logged_in",
            Self::Expired => "expired",
            Self::Ended => "ended",
            Self::LoggedOut => "logged_out",
            Self::NotUsed => "not_used",
        }
    }

    fn of(login: &ReadLogin) -> Self {
        let record = &login.login.record;
        let is_expired = record.expires_at().is_some_and(|at| at <= SystemTime::now());
        if login.login.ended.is_some() {
            Self::Ended
        } else if is_expired && record.refresh_token.is_none() {
            Self::Expired
        } else {
            Self::LoggedIn
        }
    }
}

pub(crate) fn run(arguments: &AuthArgs, common: &Common, screen: &Screen) -> Done {
    let AuthCommand::Status(arguments) = &arguments.command;
    let logins = logins().map_err(|error| CommandFailure::failed(anyhow!("{error}")))?;
    let store = &**logins.store();
    let statuses = match &arguments.server {
        Some(named) => of_server(store, &server_named(named, common)?, !named.contains("://"))?,
        None => of_all(store, common)?,
    };
    let stored = store.describe();
    if arguments.json {
        screen.print(Text::document(&AuthStatusDocument::of(&statuses, &stored)))?;
        return Ok(Exit::Success);
    }
    let protected = match stored.protection {
        "plain" => "not encrypted; only your user can read them",
        "key_file" => "encrypted with a key from a file",
        "key_command" => "encrypted with a key from a command",
        "keyring" => "encrypted with a key from the system keyring",
        _unknown => "protected in a way that this program does not know",
    };
    screen.note(text!(
        "logins are kept in {} ({})",
        plain(&stored.place),
        plain(protected)
    ));
    if statuses.is_empty() {
        screen.print("no server is reached over HTTP, and there is no login\n")?;
    }
    for status in &statuses {
        screen.print(said(status))?;
    }
    Ok(Exit::Success)
}

/// The logins of the configured servers, and those that no configured server uses.
fn of_all(store: &dyn LoginStore, common: &Common) -> Result<Vec<AuthStatus>, CommandFailure> {
    let mut statuses = Vec::new();
    for server in &configured(common)?.servers {
        statuses.extend(of_server(store, server, true)?);
    }
    for login in store.all_logins().map_err(CommandFailure::failed)? {
        let address = login.login.record.server.to_string();
        let is_known = |status: &AuthStatus| {
            let known = status.login.as_ref().map(|known| &known.version);
            known == Some(&login.version)
        };
        if !statuses.iter().any(is_known) {
            statuses.push(AuthStatus {
                server: None,
                address,
                is_configured: false,
                state: AuthState::of(&login),
                login: Some(login),
            });
        }
    }
    Ok(statuses)
}

fn of_server(
    store: &dyn LoginStore,
    server: &ServerConfig,
    is_configured: bool,
) -> Result<Vec<AuthStatus>, CommandFailure> {
    let Target::Http(target) = server.target() else {
        return Ok(Vec::new());
    };
    let user = match target.oauth() {
        OAuthSetting::Configured(config) => config.user.clone(),
        OAuthSetting::Automatic | OAuthSetting::Off => None,
    };
    let mut status = AuthStatus {
        server: Some(server.name().to_owned()),
        address: target.url().shown().to_owned(),
        is_configured,
        state: AuthState::NotUsed,
        login: None,
    };
    let is_used = !target.has_credentials() && *target.oauth() != OAuthSetting::Off;
    let Some(address) = target.url().value().parse().ok().filter(|_| is_used) else {
        return Ok(vec![status]);
    };
    let key = LoginKey {
        server: address,
        user,
    };
    let found = store.logins(&key).map_err(CommandFailure::failed)?;
    if found.is_empty() {
        status.state = AuthState::LoggedOut;
        return Ok(vec![status]);
    }
    let of_login = |login: ReadLogin| AuthStatus {
        server: status.server.clone(),
        address: status.address.clone(),
        is_configured,
        state: AuthState::of(&login),
        login: Some(login),
    };
    Ok(found.into_iter().map(of_login).collect())
}

fn said(status: &AuthStatus) -> Text {
    let name = status.server.as_deref().unwrap_or(&status.address);
    let mut said = text!("{}: ", plain(name));
    let meant = if status.is_configured {
        name
    } else {
        &status.address
    };
    let again = text!("; run `{}`", plain(&login::command(meant)));
    match (status.state, &status.login) {
        (AuthState::NotUsed, _) => {
            said.push("no login is used: the configuration has a credential, or turns logins off");
        }
        (AuthState::LoggedOut, _) | (_, None) => {
            said.push("not logged in");
            said.push(again);
        }
        (state, Some(login)) => {
            let record = &login.login.record;
            match state {
                AuthState::Ended => said.push(text!("the login at {} has ended", plain(&record.issuer))),
                AuthState::Expired => said.push(text!("the login at {} has expired", plain(&record.issuer))),
                AuthState::LoggedIn | AuthState::LoggedOut | AuthState::NotUsed => {
                    said.push(text!("logged in at {}", plain(&record.issuer)));
                }
            }
            if !record.granted_scopes.is_empty() {
                said.push(text!(", scopes {}", plain(&record.granted_scopes.join(" "))));
            }
            if let Some(left) = record
                .expires_at()
                .and_then(|at| at.duration_since(SystemTime::now()).ok())
            {
                said.push(text!(", the token expires in {}", span(left)));
            }
            if record.refresh_token.is_some() && state == AuthState::LoggedIn {
                said.push(", renewed by itself");
            }
            if let Some(reason) = login.login.ended.as_ref().or(login.login.last_error.as_ref()) {
                said.push(text!(" ({})", plain(reason)));
            }
            if let Some(error) = login
                .login
                .refused
                .as_ref()
                .filter(|_| state == AuthState::LoggedIn)
            {
                said.push(text!(", but the server refused this token ({})", plain(error)));
                said.push(again);
                said.push("; if it refuses the new token too, its operator must correct that");
            } else if state != AuthState::LoggedIn {
                said.push(again);
            }
        }
    }
    said.push("\n");
    said
}
