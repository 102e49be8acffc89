//! The listing of everything a server offers, all pages of it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::inbox::Report;
use super::recovery;
use super::tasks::Panicked;
use crate::catalog::{About, ItemList, Kind, PageError, PageStep, Pager, PreparedOffers, ServerCatalog};
use crate::config::Target;
use crate::connection::Connection;
use crate::large;
use crate::protocol::{Era, Greeting};
use crate::server::{CallOptions, Slot};
use crate::transport::http::{Challenge, HttpFailure};
use crate::wire::{RawJson, RequestError, RpcError};

/// How long one page may take.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a listing failed. The connection may still be good.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error("{method}: {error}")]
    Request {
        method: &'static str,
        error: RequestError,
    },
    #[error("{0}")]
    Page(#[from] PageError),
    #[error("{0}")]
    Panicked(#[from] Panicked),
}

impl ListError {
    /// What a login needs, if the server requires one.
    pub(super) fn challenge(&self) -> Option<&Challenge> {
        match self {
            Self::Request { error, .. } => recovery::challenge(error),
            Self::Page(_) | Self::Panicked(_) => None,
        }
    }

    /// The failure of a request over HTTP, if it was one.
    pub(super) fn http(&self) -> Option<&HttpFailure> {
        match self {
            Self::Request { error, .. } => recovery::http(error),
            Self::Page(_) | Self::Panicked(_) => None,
        }
    }
}

/// Lists everything. It ends no later than the machine stops to wait for it, so that its report is never taken for that of a
/// later listing. `previous` is what was published before: an equal catalog shares its work.
pub(super) async fn list(
    slot: Arc<Slot>,
    connection: Arc<Connection>,
    previous: Option<PreparedOffers>,
    deadline: Instant,
) -> Report {
    let generation = connection.generation;
    match list_all(&slot, &connection, previous, deadline).await {
        Ok(offers) => Report::Listed(generation, offers),
        Err(error) => Report::ListFailed(generation, error),
    }
}

/// What is kept of a server's introduction for as long as the server is known.
pub(super) fn about(greeting: &Greeting) -> About {
    About {
        protocol_version: Some(greeting.version.clone()),
        server_info: greeting.server_info.clone(),
        capabilities: Some(greeting.capabilities.clone()),
        instructions: greeting.instructions.clone(),
        modern_capabilities: None,
    }
}

async fn list_all(
    slot: &Slot,
    connection: &Connection,
    previous: Option<PreparedOffers>,
    deadline: Instant,
) -> Result<PreparedOffers, ListError> {
    let greeting = &connection.greeting;
    let settings = slot.settings.load();
    let over_http = matches!(settings.target(), Target::Http(_));
    let may_speak_both = over_http && settings.era().is_none();
    let (name, era, view) = (slot.name.clone(), greeting.era, settings.view.clone());
    drop(settings);
    let listings = if may_speak_both {
        list_and_look_beside(slot, connection, deadline).await?
    } else {
        list_kinds(connection, deadline).await?
    };
    let beside = connection.greeting_beside();
    let about = About {
        modern_capabilities: beside.map(|greeting| greeting.capabilities.clone()),
        ..about(greeting)
    };
    let length = listings.iter().map(ItemList::length).sum();
    let digest = move || {
        let catalog = match era {
            Era::Modern if over_http => ServerCatalog::over_http(&name, about, listings),
            Era::Modern | Era::Legacy => ServerCatalog::new(&name, about, listings),
        };
        PreparedOffers::after(previous.as_ref(), &name, Arc::new(catalog), view)
    };
    Ok(large::process(length, digest).await)
}

/// Lists a server that may speak both eras. A change that it reports in the modern era alone is not missed: its lists are read after it has
/// taken the listen of that era. A server that never spoke it does not wait for that.
async fn list_and_look_beside(
    slot: &Slot,
    connection: &Connection,
    deadline: Instant,
) -> Result<Vec<ItemList>, ListError> {
    let spoke_both = |catalog: &ServerCatalog| catalog.about().modern_capabilities.is_some();
    if slot.catalog.load().as_deref().is_some_and(spoke_both) {
        connection.look_beside().await;
        return list_kinds(connection, deadline).await;
    }
    let (listings, is_found) = tokio::join!(list_kinds(connection, deadline), connection.look_beside());
    match is_found {
        true => list_kinds(connection, deadline).await,
        false => listings,
    }
}

async fn list_kinds(connection: &Connection, deadline: Instant) -> Result<Vec<ItemList>, ListError> {
    let offers = connection.greeting.offers;
    let mut listings = Vec::new();
    for kind in Kind::ALL {
        let offered = match kind {
            Kind::Tool => offers.tools,
            Kind::Prompt => offers.prompts,
            Kind::Resource | Kind::Template => offers.resources,
        };
        let listing = if offered {
            list_kind(connection, kind, deadline).await?
        } else {
            ItemList::empty(kind)
        };
        listings.push(listing);
    }
    Ok(listings)
}

async fn list_kind(connection: &Connection, kind: Kind, deadline: Instant) -> Result<ItemList, ListError> {
    let method = kind.method();
    let mut pager = Pager::new(kind);
    loop {
        let params = pager
            .cursor()
            .and_then(|cursor| RawJson::from_value(&json!({ "cursor": cursor })).ok());
        let options = CallOptions::until(deadline.min(Instant::now() + PAGE_TIMEOUT));
        let page = match connection.ask(method, &params.into(), &options).await {
            Ok(page) => page,
            // A server may declare resources and know nothing of templates.
            Err(RequestError::Rpc(error)) if error.code() == RpcError::METHOD_NOT_FOUND => {
                return Ok(ItemList::empty(kind));
            }
            Err(RequestError::Rpc(error)) => {
                return pager.refused().ok_or(ListError::Request {
                    method,
                    error: RequestError::Rpc(error),
                });
            }
            Err(error) => return Err(ListError::Request { method, error }),
        };
        let length = page.as_bytes().len();
        pager = match large::process(length, move || pager.accept(&page)).await? {
            PageStep::Ask(pager) => pager,
            PageStep::Done(listing) => return Ok(listing),
        };
    }
}
