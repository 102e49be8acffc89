//! The published catalog: an immutable picture of what the whole fleet offers, and which server a resource is read from.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use mainstay_lifecycle::Generation;

use super::names::{CatalogHash, Hasher};
use super::offer::{OfPrompts, OfResources, OfTemplates, OfTools, Offer, ServerSection};
use super::server::{CatalogFault, Diagnostic, DiagnosticList};
use super::{Kind, PublicPrompt, PublicResource, PublicTemplate, PublicTool, ServerCatalog};

/// What the whole fleet offers, at one revision. It never changes; a newer one takes its place.
#[derive(Clone, Debug)]
pub struct Catalog {
    content: Arc<CatalogContent>,
    servers: BTreeMap<Arc<str>, PublishedServer>,
    diagnostics: Arc<[Diagnostic]>,
}

/// When a server's catalog was listed, and since when it may be out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// When the server last listed it.
    pub listed_at: SystemTime,
    /// Since when the server cannot be asked; `None` while it can.
    pub stale_since: Option<SystemTime>,
    /// The connection that listed it; `None` where it was listed by an earlier process and is known from disk.
    pub generation: Option<Generation>,
}

impl Catalog {
    /// The number of this content. It grows by one with each change of content, and only then.
    pub fn revision(&self) -> u64 {
        self.content.revision
    }

    /// The hash of everything published. Equal content has an equal hash in every process.
    pub fn hash(&self) -> CatalogHash {
        self.content.hash
    }

    /// All tools, sorted by server and original name.
    pub fn tools(&self) -> &[PublicTool] {
        &self.content.tools.list
    }

    /// The tool with this public name.
    pub fn tool(&self, name: &str) -> Option<&PublicTool> {
        self.content.tools.get(name)
    }

    /// All prompts, sorted by server and original name.
    pub fn prompts(&self) -> &[PublicPrompt] {
        &self.content.prompts.list
    }

    /// The prompt with this public name.
    pub fn prompt(&self, name: &str) -> Option<&PublicPrompt> {
        self.content.prompts.get(name)
    }

    /// All resources, sorted by server and uri.
    pub fn resources(&self) -> &[PublicResource] {
        &self.content.resources.list
    }

    /// The resource with this uri; of the first server where several offer it.
    pub fn resource(&self, uri: &str) -> Option<&PublicResource> {
        self.content.resources.get(uri)
    }

    /// All resource templates, sorted by server and uri template.
    pub fn templates(&self) -> &[PublicTemplate] {
        &self.content.templates.list
    }

    /// The resource template spelt like this; of the first server where several offer it.
    pub fn template(&self, uri_template: &str) -> Option<&PublicTemplate> {
        self.content.templates.get(uri_template)
    }

    /// The servers whose offers are published, sorted by name.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(|name| &**name)
    }

    /// What one server offers, before any view and name is applied.
    pub fn server(&self, server: &str) -> Option<&Arc<ServerCatalog>> {
        self.servers.get(server).map(|listed| &listed.catalog)
    }

    /// How fresh a server's part is; `None` when nothing of it is published.
    pub fn freshness(&self, server: &str) -> Option<Freshness> {
        self.servers.get(server).map(|listed| listed.freshness)
    }

    /// Everything that was set aside, server by server.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// One server's part.
    pub(super) fn listed(&self, server: &str) -> Option<(&Arc<str>, &PublishedServer)> {
        self.servers.get_key_value(server)
    }

    /// Nothing, at revision zero: what readers see before the first server is published.
    pub(crate) fn empty() -> Self {
        Self {
            content: Arc::new(CatalogContent {
                revision: 0,
                hash: Hasher::default().finish(),
                tools: OfferTable::default(),
                prompts: OfferTable::default(),
                resources: OfferTable::default(),
                templates: OfferTable::default(),
            }),
            servers: BTreeMap::new(),
            diagnostics: Arc::default(),
        }
    }

    /// The catalog that follows this one: `content` counts as new, and gets the next revision, if its hash differs.
    pub(super) fn followed_by(
        &self,
        content: CatalogContent,
        servers: BTreeMap<Arc<str>, PublishedServer>,
        diagnostics: Vec<Diagnostic>,
    ) -> Self {
        let content = if content.hash == self.content.hash {
            Arc::clone(&self.content)
        } else {
            Arc::new(CatalogContent {
                revision: self.content.revision + 1,
                ..content
            })
        };
        Self {
            content,
            servers,
            diagnostics: diagnostics.into(),
        }
    }

    /// The same content with another freshness of one server.
    pub(super) fn with_freshness(&self, server: &str, freshness: Freshness) -> Self {
        let mut same = self.clone();
        if let Some(listed) = same.servers.get_mut(server) {
            listed.freshness = freshness;
        }
        same
    }
}

/// One server's part in a published catalog.
#[derive(Clone, Debug)]
pub(super) struct PublishedServer {
    pub(super) catalog: Arc<ServerCatalog>,
    pub(super) freshness: Freshness,
    /// What is published of it where no other server stands in its way.
    pub(super) section: Arc<ServerSection>,
}

/// What a revision stands for.
#[derive(Debug)]
pub(super) struct CatalogContent {
    pub(super) revision: u64,
    pub(super) hash: CatalogHash,
    pub(super) tools: OfferTable<OfTools>,
    pub(super) prompts: OfferTable<OfPrompts>,
    pub(super) resources: OfferTable<OfResources>,
    pub(super) templates: OfferTable<OfTemplates>,
}

/// Offers in their order, and where each public name is found; the first of a name is the one found.
#[derive(Debug)]
pub(super) struct OfferTable<T> {
    list: Vec<Offer<T>>,
    index: HashMap<Arc<str>, usize>,
}

impl<T> OfferTable<T> {
    pub(super) fn get(&self, name: &str) -> Option<&Offer<T>> {
        self.index.get(name).map(|&at| &self.list[at])
    }

    pub(super) fn list(&self) -> &[Offer<T>] {
        &self.list
    }

    pub(super) fn push(&mut self, offer: Offer<T>) {
        let name = Arc::clone(offer.shared_name());
        self.index.entry(name).or_insert(self.list.len());
        self.list.push(offer);
    }

    /// Puts this offer in the place of the one with its name.
    pub(super) fn replace(&mut self, offer: Offer<T>) {
        if let Some(&at) = self.index.get(offer.name()) {
            self.list[at] = offer;
        }
    }
}

impl<T> Default for OfferTable<T> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            index: HashMap::new(),
        }
    }
}

/// Addresses that are looked at for one template to find one that it overlaps with. More of them begin like the template
/// where one server has them all, and then nothing overlaps, or where many servers are alike. All templates are looked at for
/// each catalog that is published, so the bound keeps a large fleet from paying for their number squared.
const MAX_COMPARED: usize = 64;

impl Catalog {
    /// The server that a resource with this uri is read from: the one that lists it, or else the one with a template that fits
    /// it. Of several templates that fit the one with the most literal text counts, and the first of those.
    pub fn owner(&self, uri: &str) -> Option<&str> {
        if let Some(resource) = self.resource(uri) {
            return Some(resource.server());
        }
        let fitting = self
            .templates()
            .iter()
            .filter(|template| fits(template.original(), uri));
        let best = fitting.rev().max_by_key(|template| literal(template.original()));
        best.map(Offer::server)
    }
}

/// What a person should know of templates that fit addresses of other servers: those are not read from the template's server.
pub(super) fn overlaps(
    resources: &OfferTable<OfResources>,
    templates: &OfferTable<OfTemplates>,
) -> Vec<Diagnostic> {
    if templates.list().is_empty() {
        return Vec::new();
    }
    let of_resources = resources.list().iter().map(|offer| UriOrTemplate {
        text: offer.original(),
        server: offer.server(),
        literal: usize::MAX,
    });
    let of_templates = templates.list().iter().map(|offer| UriOrTemplate {
        text: offer.original(),
        server: offer.server(),
        literal: literal(offer.original()),
    });
    let mut addresses: Vec<UriOrTemplate<'_>> = of_resources.chain(of_templates).collect();
    addresses.sort_unstable_by_key(|address| address.text);
    let mut diagnostics: BTreeMap<&str, DiagnosticList<'_>> = BTreeMap::new();
    for template in templates.list() {
        let (text, server) = (template.original(), template.server());
        let own = literal(text);
        let head = text.split('{').next().unwrap_or_default();
        let first = addresses.partition_point(|address| address.text < head);
        let alike = addresses[first..].iter().take(MAX_COMPARED);
        let other = alike
            .take_while(|address| address.text.starts_with(head))
            .find(|address| address.literal > own && address.server != server && fits(text, address.text));
        if let Some(other) = other {
            let message = format!(
                "fits `{}` of server `{}` too, which is read from there: it has more literal text",
                other.text, other.server
            );
            diagnostics
                .entry(server)
                .or_insert_with(|| DiagnosticList::of(server))
                .add(Kind::Template, CatalogFault::Overlap, Some(text), message);
        }
    }
    diagnostics
        .into_values()
        .flat_map(DiagnosticList::finish)
        .collect()
}

/// Something that a template may fit: a uri, or another template.
struct UriOrTemplate<'a> {
    text: &'a str,
    server: &'a str,
    literal: usize,
}

/// Whether a uri can be an expansion of a template: its fixed parts come in their order, with something between them.
fn fits(template: &str, uri: &str) -> bool {
    let Some((head, mut parts)) = template.split_once('{') else {
        return template == uri;
    };
    let Some(mut rest) = uri.strip_prefix(head) else {
        return false;
    };
    loop {
        let Some((_variable, fixed)) = parts.split_once('}') else {
            return false;
        };
        match fixed.split_once('{') {
            None => return rest.ends_with(fixed),
            Some((fixed, more)) => {
                let Some(at) = rest.find(fixed) else { return false };
                rest = &rest[at + fixed.len()..];
                parts = more;
            }
        }
    }
}

/// How many bytes of a template are fixed.
fn literal(template: &str) -> usize {
    let mut parts = template.split('{');
    let head = parts.next().map_or(0, str::len);
    let fixed = parts.map(|part| part.split_once('}').map_or(0, |(_, fixed)| fixed.len()));
    head + fixed.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::{fits, literal};

    #[test]
    fn a_uri_fits_the_template_it_can_come_from() {
        for (template, uri, expected) in [
            ("file:///{path}", "file:///a/b", true),
            ("db://{table}/rows/{id}", "db://users/rows/7", true),
            ("db://{table}/rows/{id}", "db://users/cols/7", false),
            ("note://{name}.txt", "note://a.txt", true),
            ("note://{name}.txt", "note://a.txt.bak", false),
            ("static://x", "static://x", true),
            ("static://x", "static://xy", false),
            ("{+whole}", "anything:at/all", true),
        ] {
            assert_eq!(fits(template, uri), expected, "{template} {uri}");
        }
    }

    #[test]
    fn the_literal_text_of_a_template_is_what_stands_outside_of_its_variables() {
        for (template, expected) in [("{+whole}", 0), ("a://{b}/c", 6), ("a://", 4), ("a{b", 1)] {
            assert_eq!(literal(template), expected, "{template}");
        }
    }
}
