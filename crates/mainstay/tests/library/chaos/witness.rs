//! Whoever watches all the time.

use std::time::Duration;

use mainstay::event::EventOrLag;
use mainstay::{Event, Fleet};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use mainstay_testkit::chaos::{NEVER_DISABLED, name};

/// Reads every event until it is stopped.
pub(crate) fn of_events(fleet: &Fleet) -> (JoinHandle<Vec<Event>>, oneshot::Sender<()>) {
    let mut events = fleet.events();
    let (stop, mut stopped) = oneshot::channel();
    let watching = tokio::spawn(async move {
        let mut heard = Vec::new();
        loop {
            let next = tokio::select! {
                biased;
                next = events.next() => next,
                _ = &mut stopped => None,
            };
            match next {
                Some(EventOrLag::Event(event)) => heard.push(*event),
                Some(EventOrLag::Lagged(lost)) => {
                    panic!("{lost} events were lost to a reader that does nothing else")
                }
                None => return heard,
            }
        }
    });
    (watching, stop)
}

/// Reads each catalog that is published, and whatever there is in between. Returns how often it looked.
pub(crate) fn of_catalog(fleet: &Fleet, over: watch::Receiver<bool>) -> JoinHandle<usize> {
    let mut reader = fleet.catalog_reader();
    let always: Vec<_> = (0..NEVER_DISABLED)
        .map(|n| format!("{}__echo", name(n)))
        .collect();
    tokio::spawn(async move {
        let mut looks = 0;
        let mut revision = 0;
        while !*over.borrow() {
            let catalog = reader.load();
            assert!(!catalog.tools().is_empty(), "an empty catalog was published");
            for tool in &always {
                assert!(
                    catalog.tool(tool).is_some(),
                    "{tool} is gone from revision {}",
                    catalog.revision()
                );
            }
            assert!(catalog.revision() >= revision, "the catalog went back");
            revision = catalog.revision();
            looks += 1;
            let _ = timeout(Duration::from_millis(1), reader.changed()).await;
        }
        looks
    })
}
