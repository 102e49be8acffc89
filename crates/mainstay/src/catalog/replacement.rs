//! Whether a fresh listing takes the place of the last-good catalog.

use std::collections::BTreeSet;

use super::{Kind, ServerCatalog};

/// What becomes of a fresh listing.
#[derive(Debug)]
#[must_use]
pub(crate) enum Replacement {
    /// It takes the place of the last-good catalog.
    Replace(ServerCatalog),
    /// It emptied a list that had items: list again, and decide with this doubt.
    Confirm(Doubt),
    /// It has the content of the last-good catalog, and its order; only diagnostics and time to live may be newer.
    Same(ServerCatalog),
}

/// The kinds that came back empty, without a second listing to confirm it. The default doubts nothing.
///
/// A doubt only grows, so a server that empties one kind after another is listed at most once more for each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doubt(BTreeSet<Kind>);

impl Replacement {
    /// Decides on a `fresh` listing, given the `doubt` of the listing before it.
    ///
    /// Servers are known to list nothing while they start or while their own backend is away; were that believed at
    /// once, every caller would lose its tools for a moment.
    pub(crate) fn decide(previous: Option<&ServerCatalog>, fresh: ServerCatalog, doubt: &Doubt) -> Self {
        let Some(previous) = previous else {
            return Self::Replace(fresh);
        };
        if *previous == fresh {
            return Self::Same(fresh.in_order_of(previous));
        }
        let emptied: BTreeSet<Kind> = Kind::ALL
            .into_iter()
            .filter(|&kind| fresh.items(kind).is_empty() && !previous.items(kind).is_empty())
            .collect();
        if emptied.is_subset(&doubt.0) {
            Self::Replace(fresh)
        } else {
            Self::Confirm(Doubt(&emptied | &doubt.0))
        }
    }
}

impl Doubt {
    /// The kinds in doubt.
    #[cfg(test)]
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{Doubt, Replacement};
    use crate::catalog::fixtures::{catalog, prompt, tool};
    use crate::catalog::{Item, Kind};

    #[test]
    fn the_first_listing_is_believed_even_when_empty() {
        let decision = Replacement::decide(None, catalog("s", &[]), &Doubt::default());
        assert!(matches!(decision, Replacement::Replace(_)));
    }

    #[test]
    fn the_same_content_in_another_order_is_the_same() {
        let last = catalog("s", &[tool("b"), tool("a")]);
        let decision = Replacement::decide(
            Some(&last),
            catalog("s", &[tool("a"), tool("b")]),
            &Doubt::default(),
        );
        let Replacement::Same(fresh) = decision else {
            panic!("{decision:?}");
        };
        let order: Vec<_> = fresh.listed(Kind::Tool).map(Item::key).collect();
        assert_eq!(
            order,
            ["b", "a"],
            "and is shown in the order it was first listed in"
        );
    }

    #[test]
    fn a_list_that_shrinks_without_becoming_empty_replaces_at_once() {
        let last = catalog("s", &[tool("a"), tool("b")]);
        let decision = Replacement::decide(Some(&last), catalog("s", &[tool("b")]), &Doubt::default());
        assert!(matches!(decision, Replacement::Replace(_)));
    }

    #[test]
    fn an_emptied_kind_replaces_only_when_a_second_listing_confirms_it() {
        let last = catalog("s", &[tool("a"), prompt("p")]);
        let without_tools = || catalog("s", &[prompt("p")]);
        let Replacement::Confirm(doubt) =
            Replacement::decide(Some(&last), without_tools(), &Doubt::default())
        else {
            panic!("believed at once");
        };
        assert_eq!(doubt.kinds().collect::<Vec<_>>(), [Kind::Tool]);
        let decision = Replacement::decide(Some(&last), without_tools(), &doubt);
        assert!(matches!(decision, Replacement::Replace(fresh) if fresh.items(Kind::Tool).is_empty()));
    }

    #[test]
    fn a_doubt_about_tools_confirms_nothing_about_prompts() {
        let last = catalog("s", &[tool("a"), prompt("p")]);
        let without = |gone: Kind| match gone {
            Kind::Tool => catalog("s", &[prompt("p")]),
            Kind::Prompt | Kind::Resource | Kind::Template => catalog("s", &[tool("a")]),
        };
        let Replacement::Confirm(doubt) =
            Replacement::decide(Some(&last), without(Kind::Tool), &Doubt::default())
        else {
            panic!("believed at once");
        };
        let Replacement::Confirm(doubt) = Replacement::decide(Some(&last), without(Kind::Prompt), &doubt)
        else {
            panic!("the empty prompts were believed at once");
        };
        let decision = Replacement::decide(Some(&last), without(Kind::Prompt), &doubt);
        assert!(matches!(decision, Replacement::Replace(_)));
    }

    #[test]
    fn a_second_listing_that_has_the_items_again_ends_the_doubt() {
        let last = catalog("s", &[tool("a")]);
        let Replacement::Confirm(doubt) =
            Replacement::decide(Some(&last), catalog("s", &[]), &Doubt::default())
        else {
            panic!("believed at once");
        };
        let decision = Replacement::decide(Some(&last), catalog("s", &[tool("a")]), &doubt);
        assert!(matches!(decision, Replacement::Same(_)));
    }
}
