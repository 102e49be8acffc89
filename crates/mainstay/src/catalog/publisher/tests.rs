use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use tokio::time::timeout;

use super::{CatalogReader, Publisher};
use crate::catalog::fixtures::{catalog, raw, tool};
use crate::catalog::{Freshness, Kind, PreparedOffers, ServerCatalog};
use crate::config::ToolView;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn listed(seconds: u64) -> Freshness {
    Freshness {
        listed_at: at(seconds),
        stale_since: None,
        generation: None,
    }
}

fn offers(names: &[&str]) -> Arc<ServerCatalog> {
    let tools: Vec<_> = names.iter().map(|name| tool(name)).collect();
    Arc::new(catalog("s", &tools))
}

/// What server `s` offers, as it says it.
fn plain(catalog: Arc<ServerCatalog>) -> PreparedOffers {
    seen_through(Arc::default(), "s", catalog)
}

fn seen_through(view: Arc<ToolView>, server: &str, catalog: Arc<ServerCatalog>) -> PreparedOffers {
    PreparedOffers::new(&Arc::from(server), catalog, view)
}

/// The revision the reader is told of; `None` when there will be no more.
async fn told(reader: &mut CatalogReader) -> Option<u64> {
    let answer = timeout(Duration::from_secs(1), reader.changed()).await;
    answer
        .expect("the reader was not told")
        .map(|catalog| catalog.revision())
}

#[test]
fn what_a_server_offered_stays_published_while_stale_and_goes_when_withdrawn() {
    let mut publisher = Publisher::new();
    let reader = publisher.reader();
    assert!(publisher.set("s", plain(offers(&["a"])), listed(1)));

    publisher.mark_stale("s", at(5));
    publisher.mark_stale("s", at(9));
    let stale = reader.load();
    assert_eq!((stale.revision(), stale.tools().len()), (1, 1));
    assert_eq!(
        stale.freshness("s").unwrap().stale_since,
        Some(at(5)),
        "the first moment counts"
    );

    assert!(!publisher.set("s", plain(offers(&["a"])), listed(10)));
    assert_eq!(reader.load().freshness("s"), Some(listed(10)));

    assert!(publisher.withdraw("s"));
    assert!(!publisher.withdraw("s"));
    let gone = reader.load();
    assert_eq!(
        (gone.revision(), gone.tools().len(), gone.freshness("s")),
        (2, 0, None)
    );
    assert_eq!(stale.tools().len(), 1, "a catalog once loaded never changes");
}

#[test]
fn another_view_changes_what_is_published_without_a_new_listing() {
    let mut publisher = Publisher::new();
    let reader = publisher.reader();
    let first = plain(offers(&["a"]));
    publisher.set("s", first.clone(), listed(1));
    let hidden = seen_through(
        Arc::new(ToolView::default().exclude("*")),
        "s",
        first.catalog().clone(),
    );
    assert!(publisher.set("s", hidden, listed(1)));
    assert_eq!(reader.load().tools().len(), 0);
    assert!(publisher.set("s", first.clone(), listed(1)));
    assert_eq!((reader.load().tools().len(), reader.load().revision()), (1, 3));
    let equal = plain(first.catalog().clone());
    assert!(
        !publisher.set("s", equal, listed(1)),
        "an equal view changes nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_is_told_once_for_each_change_and_never_for_freshness() {
    let mut publisher = Publisher::new();
    let mut reader = publisher.reader();
    publisher.set("s", plain(offers(&["a"])), listed(1));
    publisher.set("s", plain(offers(&["b"])), listed(2));
    assert_eq!(
        told(&mut reader).await,
        Some(2),
        "changes that came together are told together"
    );

    publisher.mark_stale("s", at(3));
    publisher.set("s", plain(offers(&["b"])), listed(4));
    publisher.set("s", plain(offers(&["c"])), listed(5));
    assert_eq!(told(&mut reader).await, Some(3));

    publisher.set("s", plain(offers(&["c"])), listed(6));
    drop(publisher);
    assert_eq!(told(&mut reader).await, None);
    assert_eq!(
        reader.load().tools().len(),
        1,
        "what was published outlives its publisher"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_made_later_waits_for_the_next_change() {
    let mut publisher = Publisher::new();
    publisher.set("s", plain(offers(&["a"])), listed(1));
    let mut reader = publisher.reader();
    publisher.set("s", plain(offers(&["b"])), listed(2));
    assert_eq!(told(&mut reader).await, Some(2));
}

/// Each catalog of server `s` has tools `t0` to `t9`, all with the same description: a reader that finds fewer, or two
/// descriptions, has seen a half-built catalog.
#[test]
fn readers_beside_a_busy_writer_never_see_a_gap() {
    let of_round = |round: usize| {
        let tool = |n: usize| {
            raw(&format!(
                r#"{{"name":"t{n}","inputSchema":{{}},"description":"{round}"}}"#
            ))
        };
        Arc::new(catalog(
            "s",
            &(0..10).map(|n| (Kind::Tool, tool(n))).collect::<Vec<_>>(),
        ))
    };
    let mut publisher = Publisher::new();
    publisher.set("s", plain(of_round(0)), listed(0));
    let reader = publisher.reader();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let seen = reader.load();
                    assert!(seen.revision() >= last);
                    last = seen.revision();
                    let ours: Vec<_> = seen.tools().iter().filter(|tool| tool.server() == "s").collect();
                    assert_eq!(ours.len(), 10);
                    let first = ours[0].typed().unwrap().description;
                    assert!(ours.iter().all(|tool| tool.typed().unwrap().description == first));
                    assert!(seen.tool("s__t9").is_some() && seen.freshness("s").is_some());
                }
            });
        }
        for round in 1..300 {
            publisher.set("s", plain(of_round(round)), listed(round as u64));
            publisher.mark_stale("s", at(round as u64));
            let other = seen_through(Arc::default(), "other", offers(&["x"]));
            publisher.set("other", other, listed(1));
            publisher.withdraw("other");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(reader.load().revision(), 1 + 299 * 3);
}
