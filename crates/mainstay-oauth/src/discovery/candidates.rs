//! The addresses where one document may be, and what was found there.

use std::collections::VecDeque;

use url::Url;

use super::{DiscoveryError, DiscoveryStep};
use crate::document::DocumentError;
use crate::http::{HttpRequest, HttpResponse};
use crate::metadata::MetadataError;
use crate::well_known;

/// The addresses of one document: the one that was asked and those left to ask.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    pub(super) asked: Url,
    left: VecDeque<Url>,
    /// The first address that answered with something else than JSON.
    pub(super) unreadable: Option<DiscoveryError>,
}

impl Candidates {
    /// Begins with the first address.
    pub(super) fn new(first: Url, others: impl IntoIterator<Item = Url>) -> (Self, HttpRequest) {
        let request = HttpRequest::get(first.clone());
        let left = others.into_iter().filter(|other| *other != first).collect();
        let candidates = Self {
            asked: first,
            left,
            unreadable: None,
        };
        (candidates, request)
    }

    /// The request to the next address, if there is one.
    pub(super) fn next(&mut self) -> Option<DiscoveryStep> {
        self.asked = self.left.pop_front()?;
        Some(DiscoveryStep::Send(HttpRequest::get(self.asked.clone())))
    }
}

pub(super) enum DocumentRead<T> {
    Document(T),
    /// There is no document; the error says what was there instead of JSON.
    Nothing(Option<DiscoveryError>),
}

pub(super) fn read<T>(
    asked: &Url,
    response: &HttpResponse,
    parse: impl FnOnce(&HttpResponse) -> Result<T, MetadataError>,
) -> Result<DocumentRead<T>, DiscoveryError> {
    let url = || String::from(well_known::at(asked, asked.path()));
    if response.is_success() {
        return match parse(response) {
            Ok(document) => Ok(DocumentRead::Document(document)),
            // Servers of single-page applications answer every path with a page.
            Err(MetadataError::Document(
                error @ (DocumentError::Html { .. } | DocumentError::NotJson { .. }),
            )) => Ok(DocumentRead::Nothing(Some(DiscoveryError::Document {
                url: url(),
                error,
            }))),
            Err(MetadataError::Document(error)) => Err(DiscoveryError::Document { url: url(), error }),
            Err(MetadataError::Address(error)) => Err(error.into()),
        };
    }
    let status = response.status;
    if response.is_temporary() {
        let retry_after = response.retry_after;
        let url = url();
        return Err(DiscoveryError::Unavailable {
            url,
            status,
            retry_after,
        });
    }
    if (400..500).contains(&status) {
        return Ok(DocumentRead::Nothing(None));
    }
    Err(DiscoveryError::UnexpectedStatus { url: url(), status })
}
