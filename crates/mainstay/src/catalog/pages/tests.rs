use std::time::Duration;

use super::{CutOff, ItemList, MAX_BYTES, MAX_ITEMS, MAX_PAGES, PageError, PageStep, Pager};
use crate::catalog::fixtures::raw;
use crate::catalog::{CacheScope, Caching, Kind};
use crate::wire::RawJson;

/// Walks a list whose pages `server` writes, given the cursor; answers the listing and how many pages it took.
fn walk(server: impl Fn(Option<&str>) -> String) -> (ItemList, usize) {
    let mut pager = Pager::new(Kind::Tool);
    for asked in 1.. {
        let page = raw(&server(pager.cursor()));
        match pager.accept(&page).unwrap() {
            PageStep::Ask(next) => pager = next,
            PageStep::Done(listing) => return (listing, asked),
        }
    }
    unreachable!("the walk is bounded")
}

fn texts(listing: &ItemList) -> Vec<&str> {
    listing.items.iter().map(RawJson::as_str).collect()
}

#[test]
fn all_pages_are_listed_with_their_bytes() {
    let (listing, pages) = walk(|cursor| match cursor {
        None => r#"{"tools":[ {"b" : 1e400}, 2],"nextCursor":"x"}"#.into(),
        Some("x") => r#"{"nextCursor":"","tools":[]}"#.into(),
        Some("") => r#"{"tools":["\ud800"],"nextCursor":null}"#.into(),
        Some(other) => panic!("asked for {other}"),
    });
    assert_eq!(texts(&listing), [r#"{"b" : 1e400}"#, "2", r#""\ud800""#]);
    assert_eq!((pages, listing.cut_off), (3, None));
}

#[test]
fn each_kind_is_found_in_its_own_field() {
    for kind in Kind::ALL {
        let page = raw(&format!(r#"{{"other":[1,2],"{}":[1]}}"#, kind.list_field()));
        let Ok(PageStep::Done(listing)) = Pager::new(kind).accept(&page) else {
            panic!("{kind} is not listed");
        };
        assert_eq!((listing.kind, listing.items.len()), (kind, 1));
    }
}

#[test]
fn a_server_that_repeats_a_cursor_is_cut_off() {
    let (listing, pages) = walk(|cursor| {
        let next = match cursor {
            None | Some("b") => "a",
            Some(_) => "b",
        };
        format!(r#"{{"tools":[1],"nextCursor":"{next}"}}"#)
    });
    assert_eq!((listing.cut_off, pages), (Some(CutOff::RepeatedCursor), 3));
    assert_eq!(texts(&listing), ["1", "1", "1"]);
}

#[test]
fn a_server_whose_pages_never_end_is_cut_off() {
    let (listing, pages) = walk(|cursor| {
        let page: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        format!(r#"{{"tools":[{page}],"nextCursor":"{}"}}"#, page + 1)
    });
    assert_eq!((listing.cut_off, pages), (Some(CutOff::Pages), MAX_PAGES));
    assert_eq!(listing.items.len(), MAX_PAGES);
}

#[test]
fn a_list_with_too_many_items_is_cut_off_at_the_bound() {
    let (listing, _) = walk(|_| format!(r#"{{"tools":[{}0],"nextCursor":"x"}}"#, "0,".repeat(MAX_ITEMS)));
    assert_eq!(
        (listing.cut_off, listing.items.len()),
        (Some(CutOff::Items), MAX_ITEMS)
    );
    let (listing, _) = walk(|_| format!(r#"{{"tools":[{}0]}}"#, "0,".repeat(MAX_ITEMS - 1)));
    assert_eq!((listing.cut_off, listing.items.len()), (None, MAX_ITEMS));
}

#[test]
fn a_list_with_too_many_bytes_is_cut_off_before_the_item_that_is_too_much() {
    let (listing, _) = walk(|_| format!(r#"{{"tools":[1,"{}",2]}}"#, "x".repeat(MAX_BYTES)));
    assert_eq!(listing.cut_off, Some(CutOff::Bytes));
    assert_eq!(texts(&listing), ["1"]);
}

#[test]
fn a_cursor_that_is_no_text_ends_the_walk_with_what_was_listed() {
    let (listing, _) = walk(|_| r#"{"tools":[1],"nextCursor":7}"#.into());
    assert_eq!(
        (listing.cut_off, listing.items.len()),
        (Some(CutOff::BadCursor), 1)
    );
}

#[test]
fn a_result_that_is_no_page_fails_the_listing() {
    for result in ["null", "[]", r#""tools""#] {
        let answer = Pager::new(Kind::Tool).accept(&raw(result));
        assert!(matches!(answer, Err(PageError::NotAnObject { .. })), "{result}");
    }
    for result in ["{}", r#"{"tools":null}"#, r#"{"tools":{}}"#, r#"{"prompts":[]}"#] {
        let answer = Pager::new(Kind::Tool).accept(&raw(result));
        assert!(matches!(answer, Err(PageError::NoItems { .. })), "{result}");
    }
}

#[test]
fn one_private_page_makes_the_list_private_and_the_shortest_time_to_live_counts() {
    let (listing, _) = walk(|cursor| match cursor {
        None => r#"{"tools":[],"nextCursor":"x","cacheScope":"private","ttlMs":9000}"#.into(),
        Some(_) => r#"{"tools":[],"cacheScope":"public","ttlMs":500}"#.into(),
    });
    let strictest = Caching {
        ttl: Some(Duration::from_millis(500)),
        scope: Some(CacheScope::Private),
    };
    assert_eq!(listing.caching, Some(strictest));

    for (scope, read) in [
        ("\"public\"", Some(CacheScope::Public)),
        ("null", None),
        ("\"stricter\"", Some(CacheScope::Private)),
        ("1", Some(CacheScope::Private)),
    ] {
        let (listing, _) = walk(|_| format!(r#"{{"tools":[],"cacheScope":{scope},"ttlMs":-1}}"#));
        assert_eq!(
            listing.caching,
            Some(Caching {
                ttl: None,
                scope: read
            }),
            "{scope}"
        );
    }
    let (unsaid, _) = walk(|cursor| match cursor {
        None => r#"{"tools":[],"nextCursor":"x","cacheScope":"public"}"#.into(),
        Some(_) => r#"{"tools":[]}"#.into(),
    });
    assert_eq!(
        unsaid.caching,
        Some(Caching::default()),
        "to say nothing is not to say public"
    );
}

#[test]
fn a_refused_page_fails_the_listing_unless_its_cursor_was_empty() {
    let after = |next: &str| {
        let page = raw(&format!(r#"{{"tools":[1],"nextCursor":"{next}"}}"#));
        match Pager::new(Kind::Tool).accept(&page) {
            Ok(PageStep::Ask(pager)) => pager.refused(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(after("").map(|listing| listing.items.len()), Some(1));
    assert!(after("x").is_none());
    assert!(Pager::new(Kind::Tool).refused().is_none());
}
