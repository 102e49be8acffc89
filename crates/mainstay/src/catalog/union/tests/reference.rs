//! Random changes of servers with colliding names, compared step by step with a join from scratch that knows nothing of what came
//! before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay_testkit::chaos::Dice;

use super::{Items, Union, template};
use crate::catalog::claims::gives_way;
use crate::catalog::fixtures::{catalog, prompt, raw, resource, tool};
use crate::catalog::section::{OfKind, ServerSection};
use crate::catalog::{
    Catalog, CatalogFault, CatalogReader, Freshness, Kind, OfPrompts, OfResources, OfTemplates, OfTools,
    Offer, PreparedOffers, Publisher,
};
use crate::config::ToolView;

const RUNS: u64 = 30;
const STEPS: usize = 40;

/// Names that collide: with `__` in different places, and with characters that are replaced.
const SERVERS: [&str; 6] = ["a", "a__b", "a b", "a_b", "a__b__c", "z"];
const NAMES: [&str; 9] = ["b__c", "c", "x", "x y", "x.y", "x_y", "b__x_y", "c__x", "b__c__x"];
const URIS: [&str; 4] = ["mem://one", "mem://two", "file:///x", "file:///x/y"];
const TEMPLATES: [&str; 4] = ["mem://{name}", "file:///{path}", "file:///x/{rest}", "{+any}"];

#[test]
fn every_sequence_of_changes_gives_the_catalog_of_a_join_from_scratch() {
    for seed in 0..RUNS {
        Run::new(seed).play();
    }
}

/// What one server offers now, as the model knows it.
#[derive(Clone)]
struct Part {
    items: Items,
    view: Arc<ToolView>,
    stale_since: Option<SystemTime>,
}

struct Run {
    seed: u64,
    dice: Dice,
    publisher: Publisher,
    reader: CatalogReader,
    parts: BTreeMap<&'static str, Part>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let publisher = Publisher::new();
        Self {
            seed,
            dice: Dice::new(seed, 0),
            reader: publisher.reader(),
            publisher,
            parts: BTreeMap::new(),
        }
    }

    fn play(&mut self) {
        let mut before = Expected::of(&self.parts);
        let mut revision = 0;
        for step in 0..STEPS {
            let is_news = self.change();
            let now = Expected::of(&self.parts);
            let is_changed = now.lists != before.lists;
            let at = format!("seed {}, step {step}: {:?}", self.seed, self.parts.keys());
            assert_eq!(is_news, is_changed, "{at}");
            revision += u64::from(is_changed);
            let published = self.reader.load();
            assert_eq!(published.revision(), revision, "{at}");
            // Not every revision is read: what is made on reading must not depend on it.
            if self.dice.below(3) > 0 {
                now.compare(&published, &at);
                self.compare_with_a_fresh_join(&published, &at);
            }
            before = now;
        }
    }

    /// Makes one change. Returns whether the publisher says that the content changed.
    fn change(&mut self) -> bool {
        let server = SERVERS[self.dice.index(SERVERS.len())];
        match self.dice.below(6) {
            0 => {
                self.parts.remove(server);
                self.publisher.withdraw(server)
            }
            1 => {
                let at = SystemTime::UNIX_EPOCH + Duration::from_secs(self.dice.below(1000));
                if let Some(part) = self.parts.get_mut(server) {
                    part.stale_since.get_or_insert(at);
                }
                let is_published = self.publisher.mark_stale(server, at);
                assert_eq!(is_published, self.parts.contains_key(server));
                false
            }
            _other => {
                let part = self.part(server);
                self.parts.insert(server, part.clone());
                let offers = prepared(server, &part);
                self.publisher.set(server, offers, freshness(&part))
            }
        }
    }

    /// New items for a server, sometimes those that it has, through a view that renames one of them at times.
    fn part(&mut self, server: &str) -> Part {
        let known = self.parts.get(server).cloned();
        let items = match known {
            Some(part) if self.dice.below(4) == 0 => part.items,
            Some(_) | None => self.items(),
        };
        let view = match self.dice.below(4) {
            0 => ToolView::default().rename("x", "c"),
            1 => ToolView::default().exclude("x*"),
            _none => ToolView::default(),
        };
        Part {
            items,
            view: Arc::new(view),
            stale_since: None,
        }
    }

    fn items(&mut self) -> Items {
        let mut items = Items::new();
        for _ in 0..self.dice.below(5) {
            let name = NAMES[self.dice.index(NAMES.len())];
            let described = format!(
                r#"{{"name":"{name}","inputSchema":{{}},"description":"{}"}}"#,
                self.dice.below(3)
            );
            items.push(match self.dice.below(4) {
                0 => prompt(name),
                1 => (Kind::Tool, raw(&described)),
                _other => tool(name),
            });
        }
        for _ in 0..self.dice.below(3) {
            items.push(match self.dice.below(2) {
                0 => resource(URIS[self.dice.index(URIS.len())]),
                _other => template(TEMPLATES[self.dice.index(TEMPLATES.len())]),
            });
        }
        items
    }

    fn compare_with_a_fresh_join(&self, published: &Catalog, at: &str) {
        let mut union = Union::default();
        for (server, part) in &self.parts {
            union.put(prepared(server, part).listed(server, freshness(part)));
        }
        let fresh = union.catalog();
        assert_eq!(published.hash(), fresh.hash(), "{at}");
        assert_eq!(published.diagnostics(), fresh.diagnostics(), "{at}");
        let changed = published.changed_since(fresh);
        assert!(changed.iter().all(|server| server.before == server.now), "{at}");
        assert_eq!(changed.len(), self.parts.len(), "{at}");
    }
}

fn prepared(server: &str, part: &Part) -> PreparedOffers {
    let listed = Arc::new(catalog(server, &part.items));
    PreparedOffers::new(&Arc::from(server), listed, part.view.clone())
}

fn freshness(part: &Part) -> Freshness {
    Freshness {
        listed_at: SystemTime::UNIX_EPOCH,
        stale_since: part.stale_since,
        generation: None,
    }
}

/// What must be published of some servers.
struct Expected {
    lists: [Vec<ExpectedOffer>; Kind::ALL.len()],
    /// Tools and prompts that are set aside.
    set_aside: usize,
    stale: BTreeMap<&'static str, Option<SystemTime>>,
}

#[derive(Debug, PartialEq, Eq)]
struct ExpectedOffer {
    name: String,
    server: String,
    original: String,
    published: String,
}

impl Expected {
    fn of(parts: &BTreeMap<&'static str, Part>) -> Self {
        let section = |(server, part): (&&str, &Part)| {
            ServerSection::new(&Arc::from(*server), &catalog(server, &part.items), &part.view)
        };
        let sections: Vec<ServerSection> = parts.iter().map(section).collect();
        let named = |kind| matches!(kind, Kind::Tool | Kind::Prompt);
        let lists = Kind::ALL.map(|kind| match kind {
            Kind::Tool => join::<OfTools>(&sections),
            Kind::Prompt => join::<OfPrompts>(&sections),
            Kind::Resource => join::<OfResources>(&sections),
            Kind::Template => join::<OfTemplates>(&sections),
        });
        let offered: usize = sections
            .iter()
            .map(|section| section.tools.offers.len() + section.prompts.offers.len())
            .sum();
        let kept = Kind::ALL.iter().zip(&lists).filter(|(kind, _)| named(**kind));
        let kept: usize = kept.map(|(_, list)| list.len()).sum();
        Self {
            set_aside: offered - kept,
            lists,
            stale: parts
                .iter()
                .map(|(server, part)| (*server, part.stale_since))
                .collect(),
        }
    }

    fn compare(&self, published: &Catalog, at: &str) {
        let [tools, prompts, resources, templates] = &self.lists;
        assert_eq!(&listed(published.tools()), tools, "{at}");
        assert_eq!(&listed(published.prompts()), prompts, "{at}");
        assert_eq!(&listed(published.resources()), resources, "{at}");
        assert_eq!(&listed(published.templates()), templates, "{at}");
        for (list, kind) in self.lists.iter().zip(Kind::ALL) {
            for offer in list {
                // Of several with one uri the first counts; tools and prompts have one for each name.
                let first = list.iter().find(|first| first.name == offer.name);
                let found = match kind {
                    Kind::Tool => published.tool(&offer.name).map(expected),
                    Kind::Prompt => published.prompt(&offer.name).map(expected),
                    Kind::Resource => published.resource(&offer.name).map(expected),
                    Kind::Template => published.template(&offer.name).map(expected),
                };
                assert_eq!(found.as_ref(), first, "{at}");
            }
        }
        for (server, stale_since) in &self.stale {
            let freshness = published.freshness(server).expect("published");
            assert_eq!(freshness.stale_since, *stale_since, "{at}");
        }
        assert!(published.servers().eq(self.stale.keys().copied()), "{at}");
        let collisions = published.diagnostics().iter().filter(|found| {
            found.fault == CatalogFault::Collision && matches!(found.kind, Kind::Tool | Kind::Prompt)
        });
        assert_eq!(collisions.count(), self.set_aside, "{at}");
    }
}

/// The list of one kind: every offer in order, without those whose name leads to another.
fn join<K: OfKind>(sections: &[ServerSection]) -> Vec<ExpectedOffer> {
    let offers: Vec<&Offer<K>> = sections
        .iter()
        .flat_map(|section| &K::list(section).offers)
        .collect();
    if matches!(K::KIND, Kind::Resource | Kind::Template) {
        return offers.into_iter().map(expected).collect();
    }
    let mut owners: BTreeMap<&str, &Offer<K>> = BTreeMap::new();
    for offer in &offers {
        let owner = owners.entry(offer.name()).or_insert(offer);
        if gives_way(owner, offer) {
            *owner = offer;
        }
    }
    let is_owner = |offer: &&Offer<K>| owners[offer.name()].place() == offer.place();
    offers.into_iter().filter(is_owner).map(expected).collect()
}

fn listed<K>(offers: &[Offer<K>]) -> Vec<ExpectedOffer> {
    offers.iter().map(expected).collect()
}

fn expected<K>(offer: &Offer<K>) -> ExpectedOffer {
    ExpectedOffer {
        name: offer.name().to_owned(),
        server: offer.server().to_owned(),
        original: offer.original().to_owned(),
        published: offer.published().as_str().to_owned(),
    }
}
