//! Fingerprints of lists, which tell whether a list changed. Those of large lists are made on a thread that may block.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use mainstay::Catalog;
use mainstay::catalog::{Item, Kind, Offer};
use mainstay::gateway::message::{RawJson, process_payload};

use crate::isolation::Isolated;
use crate::scope::Scope;

/// The fingerprints of every list that clients of the shared fleet can see.
pub(super) async fn of_all(catalog: Arc<Catalog>, isolated: Arc<Isolated>) -> Vec<((Scope, Kind), u64)> {
    // Each list is a part of the union and a list of its server.
    let bytes = 2 * bytes_of(&catalog, |_| true);
    process_payload(bytes, move || all(&catalog, &isolated)).await
}

/// The fingerprints of what one server offers, kind by kind.
pub(crate) async fn fingerprints_of(catalog: Arc<Catalog>, server: Arc<str>) -> [u64; Kind::ALL.len()] {
    let bytes = bytes_of(&catalog, |of| of == &*server);
    let work = move || Kind::ALL.map(|kind| of_offers(&catalog, kind, |of| of == &*server));
    process_payload(bytes, work).await
}

fn all(catalog: &Catalog, isolated: &Isolated) -> Vec<((Scope, Kind), u64)> {
    let mut all = Vec::new();
    let isolated_names = isolated.names();
    for kind in Kind::ALL {
        // Each isolated server counts for itself: sessions differ in which of the template servers they see.
        let is_shared = |server: &str| !isolated.holds(server);
        all.push(((Scope::Union, kind), of_offers(catalog, kind, is_shared)));
        for server in &isolated_names {
            let now = of_offers(catalog, kind, |of| of == &**server);
            all.push(((Scope::Server(server.clone()), kind), now));
        }
        for server in catalog.servers().filter(|server| is_shared(server)) {
            if let Some(listed) = catalog.server(server) {
                let items = listed.items(kind).iter().map(Item::raw);
                all.push(((Scope::Server(server.into()), kind), fingerprint(items)));
            }
        }
    }
    all
}

fn of_offers(catalog: &Catalog, kind: Kind, counts: impl Fn(&str) -> bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    for_each_offer(catalog, kind, counts, |item| item.hash(&mut hasher));
    hasher.finish()
}

/// The bytes of everything that these servers offer.
fn bytes_of(catalog: &Catalog, counts: impl Fn(&str) -> bool) -> usize {
    let mut bytes = 0;
    for kind in Kind::ALL {
        for_each_offer(catalog, kind, &counts, |item| bytes += item.as_str().len());
    }
    bytes
}

fn for_each_offer(catalog: &Catalog, kind: Kind, counts: impl Fn(&str) -> bool, each: impl FnMut(&RawJson)) {
    fn of<T>(offers: &[Offer<T>], counts: impl Fn(&str) -> bool, each: impl FnMut(&RawJson)) {
        let offers = offers.iter().filter(|offer| counts(offer.server()));
        offers.map(Offer::published).for_each(each);
    }
    match kind {
        Kind::Tool => of(catalog.tools(), counts, each),
        Kind::Prompt => of(catalog.prompts(), counts, each),
        Kind::Resource => of(catalog.resources(), counts, each),
        Kind::Template => of(catalog.templates(), counts, each),
    }
}

fn fingerprint<'a>(items: impl Iterator<Item = &'a RawJson>) -> u64 {
    let mut hasher = DefaultHasher::new();
    items.for_each(|item| item.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use mainstay::gateway::message::INLINE_LIMIT;
    use mainstay::transport::{Limits, Lines, Transport};
    use mainstay::{Fleet, ServerConfig};
    use mainstay_testkit::Script;
    use mainstay_testkit::memory::MemoryServer;
    use serde_json::json;

    use super::*;
    use crate::isolation::IsolationLimits;
    use crate::router::Subscribers;

    const LONG: Duration = Duration::from_secs(60);

    /// What a server offers that has one tool with a description of so many bytes.
    async fn catalog_with(bytes: usize) -> Arc<Catalog> {
        let connector = move || async move {
            let tool =
                json!({ "name": "t", "description": "x".repeat(bytes), "inputSchema": { "type": "object" } });
            let script = Script::new().without_builtin_tools().tool_json(tool);
            let (near, remote) = tokio::io::duplex(64 * 1024);
            MemoryServer::spawn(remote, script);
            let (reader, writer) = tokio::io::split(near);
            Ok(Box::new(Lines::new(reader, writer, Limits::default())) as Box<dyn Transport>)
        };
        let config = ServerConfig::custom("s", "s", Arc::new(connector)).build();
        let fleet = Fleet::builder().start([config.expect("a valid server")]);
        let server = fleet.server("s").expect("just configured");
        server.wait_connected(LONG).await.expect("connected");
        fleet.catalog()
    }

    /// Whether these fingerprints are made on the runtime's thread: then they are there after one poll, although the only
    /// thread that may block is busy.
    async fn is_made_here<T>(fingerprints: impl Future<Output = T>) -> bool {
        let (release, released) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || released.recv().is_err());
        let mut fingerprints = pin!(fingerprints);
        let polled = fingerprints
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        drop(release);
        if polled.is_pending() {
            fingerprints.await;
        }
        polled.is_ready()
    }

    #[test]
    fn a_thread_that_may_block_makes_the_fingerprints_of_large_lists() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let isolated = Isolated::new(
                Fleet::builder(),
                Arc::new(Subscribers::default()),
                IsolationLimits::default(),
            );
            let isolated = Arc::new(isolated);
            let small = catalog_with(100).await;
            assert!(is_made_here(of_all(small.clone(), isolated.clone())).await);
            assert!(is_made_here(fingerprints_of(small, "s".into())).await);
            let large = catalog_with(INLINE_LIMIT).await;
            assert!(!is_made_here(of_all(large.clone(), isolated)).await);
            assert!(!is_made_here(fingerprints_of(large.clone(), "s".into())).await);
            assert!(
                is_made_here(fingerprints_of(large, "other".into())).await,
                "it offers nothing"
            );
        });
    }
}
