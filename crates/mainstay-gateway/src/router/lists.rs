//! Lists, from the published catalog: written once for each content, and handed out as they are. One server's are in
//! the order in which it lists them, those of the union in the order of the servers' names and then of the items'.
//!
//! They are answered at once. A server that was never listed is waited for, within a bound (`starting`): an empty list would
//! be believed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use mainstay::Era;
use mainstay::catalog::{CatalogHash, Kind, Offer};
use mainstay::config::ToolView;
use mainstay::gateway::ServerExt;
use mainstay::gateway::message::{Object, RawJson, RpcError};

use super::caching::Hint;
use super::pages::{Cursor, Pages};
use super::unlisted::gone;
use super::{Request, Router};
use crate::client::Client;
use crate::protocol::text;
use crate::scope::Scope;

/// Whether requests of this method are answered with what was written once for all clients.
pub(crate) fn is_shared(method: &str) -> bool {
    matches!(
        method,
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list"
    )
}

/// The lists that were written last, for each who sees them.
#[derive(Default)]
pub(super) struct Lists(Mutex<HashMap<(Scope, Kind, Era), Written>>);

#[derive(Clone)]
struct Written {
    of: CatalogHash,
    /// The view through which tools are shown; it changes without the catalog.
    view: Option<Arc<ToolView>>,
    hint: Hint,
    pages: Arc<Pages>,
}

impl Router {
    pub(super) async fn list(&self, request: &Request<'_>, kind: Kind) -> Result<RawJson, RpcError> {
        let cursor = Cursor::read(request.params.as_raw())?;
        match &request.client.scope {
            Scope::Union => self.any_listed(request.client).await,
            Scope::Server(name) => {
                let server = self.fleet().server(name).ok_or_else(|| gone(name))?;
                self.one_listed(request.client, &server).await?;
            }
        }
        // Before the list is looked up: a change in between is told for nothing at worst, and never missed.
        if let Some(hearing) = request.client.hearing() {
            hearing.sees(kind);
        }
        self.pages(request.client, kind).page(cursor)
    }

    fn pages(&self, client: &Client, kind: Kind) -> Arc<Pages> {
        let (scope, era) = (&client.scope, client.era);
        let catalog = self.catalog(client);
        let server = match scope {
            Scope::Union => None,
            Scope::Server(name) => self.fleet().server(name),
        };
        // What is published: a server that was disabled, or has failed for good, offers nothing.
        let listed = server
            .as_ref()
            .and_then(|server| catalog.server(server.name()).cloned());
        let of = listed
            .as_ref()
            .map_or_else(|| catalog.hash(), |listed| listed.hash());
        let view = server.as_ref().map(ServerExt::view);
        let hint = match era {
            Era::Legacy => Hint::NONE,
            Era::Modern => self.hint(&catalog, client, kind),
        };
        let key = (scope.clone(), kind, era);
        let is_current = |written: &Written| written.of == of && written.view == view && written.hint == hint;
        if let Some(written) = self.lists.get(&key).filter(is_current) {
            return written.pages;
        }
        let items: Vec<RawJson> = match (scope, &listed, &view) {
            (Scope::Union, _, _) => match kind {
                Kind::Tool => published(catalog.tools()),
                Kind::Prompt => published(catalog.prompts()),
                Kind::Resource => published(catalog.resources()),
                Kind::Template => published(catalog.templates()),
            },
            (Scope::Server(_), Some(listed), Some(view)) => {
                let items = listed.listed(kind);
                match kind {
                    Kind::Tool => items
                        .filter(|item| view.admits(item.key()))
                        .map(|item| shown(item, view))
                        .collect(),
                    Kind::Prompt | Kind::Resource | Kind::Template => {
                        items.map(|item| item.raw().clone()).collect()
                    }
                }
            }
            (Scope::Server(_), _, _) => Vec::new(),
        };
        let pages = Arc::new(Pages::write(kind, era, &items, hint));
        let written = Written {
            of,
            view,
            hint,
            pages: pages.clone(),
        };
        self.lists.put(key, written);
        pages
    }
}

impl Lists {
    fn get(&self, key: &(Scope, Kind, Era)) -> Option<Written> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    fn put(&self, key: (Scope, Kind, Era), written: Written) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, written);
    }
}

fn published<T>(offers: &[Offer<T>]) -> Vec<RawJson> {
    offers.iter().map(|offer| offer.published().clone()).collect()
}

/// A tool under the name, and with the description, that its server's view gives it.
fn shown(item: &mainstay::catalog::Item, view: &ToolView) -> RawJson {
    let name = view.public_name(item.key());
    let description = view.describe(item.key());
    if name == item.key() && description.is_none() {
        return item.raw().clone();
    }
    let Some(mut tool) = Object::parse(item.raw()) else {
        return item.raw().clone();
    };
    tool.set("name", text(name));
    if let Some(description) = description {
        tool.set("description", text(description));
    }
    tool.to_raw()
}
