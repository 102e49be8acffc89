//! A listing that a person asks for: the keeper lists, and requests that come together share a listing.

use std::time::Duration;

use mainstay::catalog::Kind;
use mainstay::server::RefreshError;
use mainstay::{Server, StateKind, Status};
use tokio::time::timeout;

use super::Named;
use crate::api::{ApiProblem, ProblemKind, RefreshReport, unix_ms};

/// How long a person waits for a listing: longer than one may take unless the configuration gives it more.
pub(crate) const REFRESH_TIMEOUT: Duration = Duration::from_secs(90);

/// Lists the server again, and says what it offers when the listing is published. One that rests is started for it; any other that is
/// not connected is refused at once.
///
/// Cancel safety: dropped, the listing takes place all the same.
pub(super) async fn list_again(named: &Named) -> Result<RefreshReport, ApiProblem> {
    let server = &named.server;
    let status = server.status();
    if !status.is_up() {
        return Err(not_up(&named.name, &status));
    }
    let before = digest(server);
    let listed = timeout(REFRESH_TIMEOUT, server.refresh()).await;
    let status = listed
        .map_err(|_elapsed| {
            let title = format!("the listing of server {} has not ended", named.name);
            late(&named.name, title)
        })?
        .map_err(|error| not_listed(&named.name, &error))?;
    let listed = server.catalog();
    let count = |kind| listed.as_ref().map_or(0, |listed| listed.items(kind).len());
    Ok(RefreshReport {
        server: named.name.to_string(),
        revision: named.group.gateway.fleet().catalog().revision(),
        changed: digest(server) != before,
        tools: count(Kind::Tool),
        prompts: count(Kind::Prompt),
        resources: count(Kind::Resource),
        templates: count(Kind::Template),
        listed_ms: status.listed_at.map(unix_ms),
    })
}

fn digest(server: &Server) -> Option<String> {
    server.catalog().map(|listed| listed.hash().to_string())
}

fn not_up(server: &str, status: &Status) -> ApiProblem {
    let (title, remedy) = match status.state {
        StateKind::Disabled | StateKind::Disabling => ("is disabled", "enable it first"),
        StateKind::Connecting | StateKind::Reconnecting => (
            "is not connected yet",
            "it is listed by itself as soon as it is connected",
        ),
        StateKind::Connected | StateKind::Disconnected | StateKind::PermanentlyFailed => (
            "is not connected",
            "restart it: it is listed as soon as it is connected",
        ),
    };
    ApiProblem::new(ProblemKind::Conflict, format!("server {server} {title}"))
        .at(server)
        .remedy(remedy)
}

fn not_listed(server: &str, error: &RefreshError) -> ApiProblem {
    let remedy = match error {
        RefreshError::NotConnected(_) => "look at its status",
        RefreshError::ListingFailed { .. } => {
            "what it offered before stays published; its stderr may say more"
        }
        RefreshError::TimedOut { .. } => return late(server, error.to_string()),
        RefreshError::KeeperFailed { .. } => "try again",
        RefreshError::Gone { .. } => "look at the list of servers again",
        _ => "look at its status",
    };
    ApiProblem::new(ProblemKind::Conflict, error.to_string())
        .at(server)
        .remedy(remedy)
}

fn late(server: &str, title: String) -> ApiProblem {
    ApiProblem::new(ProblemKind::TimedOut, title)
        .at(server)
        .remedy("its status says when it was last listed")
}
