//! From the address of an MCP server to the metadata of its authorization server.
//!
//! [`Discovery`] asks for one document at a time: protected resource metadata, then authorization server metadata. It
//! sends at most six requests. A document that is not there (any 4xx but 408, 425 and 429) leads to the next address;
//! a server that fails leads to an error, since the document may be there later.

mod candidates;
mod error;

use url::Url;

use self::candidates::{Candidates, DocumentRead, read};
pub use self::error::DiscoveryError;
use crate::address::AddressRules;
use crate::challenge::AuthChallenge;
use crate::http::{HttpRequest, HttpResponse};
use crate::metadata::AuthorizationServerMetadata;
use crate::resource::{ResourceMetadata, canonical};
use crate::revision::Revision;
use crate::well_known;

/// What a discovery starts from.
#[derive(Clone, Debug)]
pub struct DiscoveryOptions {
    /// The address of the MCP server.
    pub server: Url,
    /// The revision that the client speaks with the server.
    pub revision: Revision,
    /// The challenge of the refused request.
    pub challenge: AuthChallenge,
    /// The issuer that a person pinned.
    pub pinned_issuer: Option<String>,
    /// The issuers the client has a registration with.
    pub known_issuers: Vec<String>,
    /// Whether a person configured the text of `resource`, so that the published one does not matter.
    pub resource_is_configured: bool,
    /// The rules for addresses.
    pub rules: AddressRules,
}

/// The authorization server of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Discovered {
    /// The revision whose rules apply: 2025-03-26 if the server publishes no protected resource metadata.
    pub revision: Revision,
    /// The text to send as `resource`.
    pub resource: Option<String>,
    /// `scopes_supported` of the protected resource metadata.
    pub scopes: Option<Vec<String>>,
    /// The issuer whose metadata was asked for. Registrations and logins are kept under this text, never under what a
    /// document claims.
    pub issuer: String,
    /// The metadata of the authorization server.
    pub metadata: AuthorizationServerMetadata,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum DiscoveryStep {
    /// Send this request and hand the response to [`Discovery::handle_response`].
    Send(HttpRequest),
    /// The authorization server is known.
    Found(Box<Discovered>),
}

/// The search for an authorization server.
#[derive(Clone, Debug)]
pub struct Discovery {
    options: DiscoveryOptions,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Resource(Candidates),
    Issuer {
        issuer: String,
        resource: Option<ResourceMetadata>,
        candidates: Candidates,
    },
    /// Revision 2025-03-26: metadata at the origin of the server, or none.
    Origin {
        asked: Url,
    },
    Ended,
}

impl Discovery {
    /// Begins with the protected resource metadata.
    pub fn start(options: DiscoveryOptions) -> Result<(Self, HttpRequest), DiscoveryError> {
        let rules = &options.rules;
        rules.check_url("address of the MCP server", &without_fragment(&options.server))?;
        let (by_path, root) = well_known::of_resource(&options.server);
        let (candidates, request) = match &options.challenge.resource_metadata {
            Some(named) => {
                let named = rules.check("address of the protected resource metadata", named)?;
                Candidates::new(named, [by_path].into_iter().chain(root))
            }
            None => Candidates::new(by_path, root),
        };
        let stage = Stage::Resource(candidates);
        Ok((Self { options, stage }, request))
    }

    /// Takes the response to the last request. After an error the discovery has ended.
    pub fn handle_response(&mut self, response: &HttpResponse) -> Result<DiscoveryStep, DiscoveryError> {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Resource(candidates) => self.resource_response(candidates, response),
            Stage::Issuer {
                issuer,
                resource,
                candidates,
            } => self.issuer_response(issuer, resource, candidates, response),
            Stage::Origin { asked } => self.origin_response(&asked, response),
            Stage::Ended => Err(DiscoveryError::Ended),
        }
    }

    fn resource_response(
        &mut self,
        mut candidates: Candidates,
        response: &HttpResponse,
    ) -> Result<DiscoveryStep, DiscoveryError> {
        match read(&candidates.asked, response, |response| {
            Ok(ResourceMetadata::parse(response)?)
        })? {
            DocumentRead::Document(metadata) => self.use_resource(metadata),
            DocumentRead::Nothing(unreadable) => {
                candidates.unreadable = candidates.unreadable.or(unreadable);
                if let Some(step) = candidates.next() {
                    self.stage = Stage::Resource(candidates);
                    return Ok(step);
                }
                if let Some(error) = candidates.unreadable {
                    return Err(error);
                }
                self.without_resource()
            }
        }
    }

    fn use_resource(&mut self, metadata: ResourceMetadata) -> Result<DiscoveryStep, DiscoveryError> {
        let options = &self.options;
        if !options.resource_is_configured && !metadata.is_for(&options.server) {
            return Err(DiscoveryError::ResourceMismatch {
                resource: metadata.resource,
                server: canonical(&options.server),
            });
        }
        let issuer = self.choose_issuer(&metadata.authorization_servers)?;
        self.ask_issuer(issuer, Some(metadata))
    }

    /// The pinned issuer, else the first one the client is registered with, else the first one.
    fn choose_issuer(&self, listed: &[String]) -> Result<String, DiscoveryError> {
        if let Some(pinned) = &self.options.pinned_issuer {
            if !listed.is_empty() && !listed.contains(pinned) {
                let pinned = pinned.clone();
                return Err(DiscoveryError::PinnedIssuerNotListed { pinned });
            }
            return Ok(pinned.clone());
        }
        let known = listed
            .iter()
            .find(|issuer| self.options.known_issuers.contains(issuer));
        let chosen = known.or(listed.first());
        chosen.cloned().ok_or(DiscoveryError::NoAuthorizationServer)
    }

    /// Goes on without protected resource metadata: with the pinned issuer, or in the way of revision 2025-03-26.
    fn without_resource(&mut self) -> Result<DiscoveryStep, DiscoveryError> {
        if let Some(pinned) = self.options.pinned_issuer.clone() {
            return self.ask_issuer(pinned, None);
        }
        if self.options.challenge.resource_metadata.is_some() {
            return Err(DiscoveryError::ResourceMetadataMissing);
        }
        let asked = well_known::of_origin(&self.options.server);
        let step = DiscoveryStep::Send(HttpRequest::get(asked.clone()));
        self.stage = Stage::Origin { asked };
        Ok(step)
    }

    fn ask_issuer(
        &mut self,
        issuer: String,
        resource: Option<ResourceMetadata>,
    ) -> Result<DiscoveryStep, DiscoveryError> {
        let url = self
            .options
            .rules
            .check_issuer("issuer of the authorization server", &issuer)?;
        let (first, others) = well_known::of_issuer(&url);
        let (candidates, request) = Candidates::new(first, others);
        self.stage = Stage::Issuer {
            issuer,
            resource,
            candidates,
        };
        Ok(DiscoveryStep::Send(request))
    }

    fn issuer_response(
        &mut self,
        issuer: String,
        resource: Option<ResourceMetadata>,
        mut candidates: Candidates,
        response: &HttpResponse,
    ) -> Result<DiscoveryStep, DiscoveryError> {
        let metadata = match self.read_metadata(&candidates.asked, response)? {
            DocumentRead::Document(metadata) => metadata,
            DocumentRead::Nothing(unreadable) => {
                candidates.unreadable = candidates.unreadable.or(unreadable);
                if let Some(step) = candidates.next() {
                    self.stage = Stage::Issuer {
                        issuer,
                        resource,
                        candidates,
                    };
                    return Ok(step);
                }
                let missing = DiscoveryError::IssuerMetadataMissing { issuer };
                return Err(candidates.unreadable.unwrap_or(missing));
            }
        };
        let revision = self.options.revision;
        if revision.requires_identical_issuer() && metadata.issuer != issuer {
            return Err(DiscoveryError::IssuerMismatch {
                expected: issuer,
                found: metadata.issuer,
            });
        }
        let (published, scopes) = match resource {
            Some(resource) => (resource.resource, resource.scopes_supported),
            None => (canonical(&self.options.server), None),
        };
        Ok(DiscoveryStep::Found(Box::new(Discovered {
            revision,
            resource: revision.sends_resource().then_some(published),
            scopes,
            issuer,
            metadata,
        })))
    }

    fn origin_response(&self, asked: &Url, response: &HttpResponse) -> Result<DiscoveryStep, DiscoveryError> {
        let server = &self.options.server;
        let metadata = match self.read_metadata(asked, response)? {
            DocumentRead::Document(metadata) => metadata,
            DocumentRead::Nothing(Some(unreadable)) => return Err(unreadable),
            DocumentRead::Nothing(None) => AuthorizationServerMetadata::defaults(server),
        };
        Ok(DiscoveryStep::Found(Box::new(Discovered {
            revision: Revision::V2025_03_26,
            resource: None,
            scopes: None,
            issuer: server.origin().ascii_serialization(),
            metadata,
        })))
    }

    fn read_metadata(
        &self,
        asked: &Url,
        response: &HttpResponse,
    ) -> Result<DocumentRead<AuthorizationServerMetadata>, DiscoveryError> {
        let rules = &self.options.rules;
        read(asked, response, |response| {
            AuthorizationServerMetadata::parse(response, rules)
        })
    }
}

fn without_fragment(server: &Url) -> Url {
    let mut server = server.clone();
    server.set_fragment(None);
    server
}
