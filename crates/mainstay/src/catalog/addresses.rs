//! Which server a resource is read from, and where templates of one server fit addresses of another.

use std::collections::BTreeMap;

use super::offer::Offer;
use super::server::{CatalogFault, Diagnostic, DiagnosticList};
use super::{Catalog, Kind, PublicResource, PublicTemplate};

/// Addresses that are looked at for one template to find one that it overlaps with. More of them begin like the template
/// where one server has them all, and then nothing overlaps, or where many servers are alike. All templates are looked at
/// together, so the bound keeps a large fleet from paying for their number squared.
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
pub(super) fn overlaps(resources: &[PublicResource], templates: &[PublicTemplate]) -> Vec<Diagnostic> {
    if templates.is_empty() {
        return Vec::new();
    }
    let of_resources = resources.iter().map(|offer| UriOrTemplate {
        text: offer.original(),
        server: offer.server(),
        literal: usize::MAX,
    });
    let of_templates = templates.iter().map(|offer| UriOrTemplate {
        text: offer.original(),
        server: offer.server(),
        literal: literal(offer.original()),
    });
    let mut addresses: Vec<UriOrTemplate<'_>> = of_resources.chain(of_templates).collect();
    addresses.sort_unstable_by_key(|address| address.text);
    let mut diagnostics: BTreeMap<&str, DiagnosticList<'_>> = BTreeMap::new();
    for template in templates {
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
