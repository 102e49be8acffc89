//! The credential of each request is that of the moment, and one request at a time asks for it.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mainstay::transport::http::{Authorizing, BearerToken, CredentialSource, Credentials};
use mainstay::{CallErrorKind, Fleet, ServerConfig};
use mainstay_testkit::http::{FaultyHttpServer, HttpScript};
use mainstay_testkit::store::catalogs_are_stored;
use mainstay_testkit::{Script, Speaks};
use tokio::task::JoinSet;

use crate::http::support::{SOON, connected, echo, keep, keep_with, serve, web_at};

/// Gives out a new number each time, after a while, and notes who asks at once.
#[derive(Default)]
struct Numbers {
    given: AtomicUsize,
    asking: AtomicUsize,
    most: AtomicUsize,
    broken: AtomicUsize,
}

impl Credentials for Numbers {
    fn authorization(&self) -> Authorizing<'_> {
        Box::pin(async {
            let asking = self.asking.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(asking, Ordering::SeqCst);
            // Others would get their turn to ask.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            self.asking.fetch_sub(1, Ordering::SeqCst);
            if self.broken.load(Ordering::SeqCst) > 0 {
                return Err(io::Error::other("the key ring is locked"));
            }
            let number = self.given.fetch_add(1, Ordering::SeqCst);
            Ok(Some(format!("Bearer {number}").parse().expect("a header")))
        })
    }
}

fn last_authorization(remote: &FaultyHttpServer) -> String {
    let header = remote.traffic(|traffic| {
        traffic
            .last_header("tools/call", "authorization")
            .map(str::to_owned)
    });
    header.expect("a credential")
}

#[tokio::test]
async fn every_request_is_let_in_with_the_credential_of_the_moment_and_one_at_a_time_asks_for_it() {
    let remote = serve(Script::new(), HttpScript::new()).await;
    let numbers = Arc::new(Numbers::default());
    let (_fleet, server) = keep(web_at(&remote).credentials(numbers.clone()));
    connected(&server).await;
    assert!(echo(&server).await.is_ok());
    let first = last_authorization(&remote);
    assert!(echo(&server).await.is_ok());
    assert_ne!(last_authorization(&remote), first);

    let mut calls = JoinSet::new();
    for _ in 0..30 {
        let server = server.clone();
        calls.spawn(async move { echo(&server).await });
    }
    while let Some(reply) = calls.join_next().await {
        assert!(reply.unwrap().is_ok());
    }
    assert_eq!(numbers.most.load(Ordering::SeqCst), 1);
    let requests = remote.traffic(|traffic| traffic.requests("POST") + traffic.requests("GET"));
    assert_eq!(
        numbers.given.load(Ordering::SeqCst),
        requests,
        "asked once for each"
    );
}

#[tokio::test]
async fn a_credential_that_cannot_be_had_fails_the_call_before_it_leaves() {
    let remote = serve(Script::new(), HttpScript::new()).await;
    let numbers = Arc::new(Numbers::default());
    let (_fleet, server) = keep(web_at(&remote).credentials(numbers.clone()));
    let generation = connected(&server).await;
    numbers.broken.store(1, Ordering::SeqCst);
    let error = echo(&server).await.expect_err("no credential");
    assert!(
        matches!(&error.kind, CallErrorKind::NotCarried { reason, .. } if reason.contains("locked")),
        "{error:?}"
    );
    assert_eq!(error.outcome(), mainstay::Outcome::NotSent);
    numbers.broken.store(0, Ordering::SeqCst);
    assert_eq!(echo(&server).await.unwrap().generation.0, generation);
}

/// A token that was renewed while a request was on its way: the request shows the old one, the next asker gets the new.
struct Renewed(AtomicUsize);

impl Credentials for Renewed {
    fn authorization(&self) -> Authorizing<'_> {
        let left = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let token = if left.is_ok() { "Bearer old" } else { "Bearer new" };
        Box::pin(std::future::ready(Ok(Some(token.parse().expect("a header")))))
    }
}

#[tokio::test]
async fn a_request_that_showed_an_old_credential_is_made_again_with_the_new_one() {
    let remote = serve(Script::new(), HttpScript::new().bearer("new")).await;
    let token = Arc::new(Renewed(AtomicUsize::new(0)));
    let (_fleet, server) = keep(web_at(&remote).credentials(token.clone()));
    let generation = connected(&server).await;
    assert!(echo(&server).await.is_ok());
    token.0.store(1, Ordering::SeqCst);
    assert_eq!(echo(&server).await.expect("let in").generation.0, generation);

    // Nothing newer there: it is refused once, and not asked for ever.
    token.0.store(usize::MAX, Ordering::SeqCst);
    let before = remote.traffic(|traffic| traffic.requests("POST"));
    let refused = echo(&server).await.expect_err("not let in");
    assert!(
        matches!(refused.kind, CallErrorKind::AuthRequired { .. }),
        "{refused:?}"
    );
    let refusals = remote.traffic(|traffic| traffic.requests("POST")) - before;
    assert!(refusals <= 2, "{refusals} requests");
}

/// Gives out one credential, and names its owner if it knows one.
struct OfOwner(Option<&'static str>);

impl Credentials for OfOwner {
    fn authorization(&self) -> Authorizing<'_> {
        Box::pin(async { Ok(Some("Bearer t".parse().expect("a header"))) })
    }

    fn owner(&self) -> Option<String> {
        self.0.map(str::to_owned)
    }
}

/// At the next start, the credential may belong to another person.
#[tokio::test]
async fn a_private_catalog_is_stored_only_if_the_owner_of_its_credential_is_known() {
    let credentials = |owner| Arc::new(OfOwner(owner));
    for (private, provider, stored) in [
        (true, Some(credentials(None)), 0),
        (true, Some(credentials(Some("ada"))), 1),
        (true, None, 1),
        (false, Some(credentials(None)), 1),
    ] {
        let owner = provider.as_ref().map(|provider| provider.0);
        let script = Script {
            private,
            ..Script::new().speaks(Speaks::Modern)
        };
        let remote = serve(script, HttpScript::new()).await;
        let of_user_alone = Permissions::from_mode(0o700);
        let store = tempfile::Builder::new().permissions(of_user_alone).tempdir();
        let store = store.expect("a directory");
        let config = match provider {
            Some(provider) => web_at(&remote).credentials(provider),
            None => web_at(&remote),
        };
        let (fleet, server) = keep_with(Fleet::builder().store(store.path()), config);
        connected(&server).await;
        catalogs_are_stored(store.path(), stored).await;
        fleet.close(SOON).await;
        let files = std::fs::read_dir(store.path()).expect("the store").count();
        assert_eq!(files, stored, "private: {private}, owner: {owner:?}");
    }
}

/// Has a token for one server.
struct TokenOf(&'static str, Arc<BearerToken>);

impl CredentialSource for TokenOf {
    fn provider(&self, server: &ServerConfig) -> Option<Arc<dyn Credentials>> {
        (server.name() == self.0).then(|| self.1.clone() as Arc<dyn Credentials>)
    }
}

#[tokio::test]
async fn a_server_without_a_credential_of_its_own_gets_that_of_the_fleet_s_source() {
    let remote = serve(Script::new(), HttpScript::new()).await;
    let token = TokenOf("web", Arc::new(BearerToken::new("from-the-source")));
    let builder = Fleet::builder().credential_source(Arc::new(token));
    let (_fleet, server) = keep_with(builder, web_at(&remote));
    connected(&server).await;
    assert!(echo(&server).await.is_ok());
    assert_eq!(last_authorization(&remote), "Bearer from-the-source");
}
