//! `mainstay logout`: ends a login at the authorization server, and deletes it here.

use clap::Args;
use mainstay::ServerConfig;
use mainstay_login::{LogoutReport, log_out};

use crate::args::Common;
use crate::audit;
use crate::exit::{CommandFailure, Done, Exit};
use crate::json::LogoutDocument;
use crate::logins::{provider_of, server_named};
use crate::output::{Screen, Text, plain, text};

/// Log out of a server: revoke its tokens, then delete them and the registration of their client
#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// A configured server, or the address of one
    #[arg(value_name = "SERVER|URL")]
    pub(crate) server: String,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &LogoutArgs, common: &Common, screen: &Screen) -> Done {
    let server = server_named(&arguments.server, common)?;
    let done = end_login(&server, arguments.json, screen);
    audit::keep(Some(server.name()), "logout", &done);
    done
}

fn end_login(server: &ServerConfig, is_json: bool, screen: &Screen) -> Done {
    let provider = provider_of(server)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CommandFailure::failed)?;
    let reports = runtime
        .block_on(log_out(&provider))
        .map_err(CommandFailure::failed)?;
    if is_json {
        screen.print(Text::document(&LogoutDocument::of(server, &reports)))?;
        return Ok(Exit::Success);
    }
    if reports.is_empty() {
        screen.print(text!("there is no login for {}\n", plain(server.name())))?;
    }
    for report in &reports {
        screen.print(said(server.name(), report))?;
    }
    Ok(Exit::Success)
}

fn said(server: &str, report: &LogoutReport) -> Text {
    let mut said = text!("logged out of {} at {}", plain(server), plain(&report.issuer));
    match (report.revoked, &report.error) {
        (Some(true), _) => said.push(": the tokens are revoked and deleted"),
        (None, _) => said
            .push(": the tokens are deleted; the server revokes none, so they are valid until they expire"),
        (Some(false), error) => {
            let why = error.as_deref().unwrap_or_default();
            said.push(text!(
                ": the tokens are deleted, but not revoked ({})",
                plain(why)
            ));
        }
    }
    if report.forgot_registration {
        said.push("; the registration of the client is forgotten");
    }
    said.push("\n");
    said
}
