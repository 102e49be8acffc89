//! Why no authorization server was found.

use std::time::Duration;

use crate::address::AddressError;
use crate::document::DocumentError;

/// The authorization server cannot be found or trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// An address is refused.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A document cannot be used.
    #[error("{error} (from {url})")]
    Document {
        /// Where the document came from, without query.
        url: String,
        /// What is wrong with it.
        error: DocumentError,
    },
    /// A server could not answer.
    #[error("{url} answered with status {status}; try again later")]
    Unavailable {
        /// Where the request went, without query.
        url: String,
        /// The status.
        status: u16,
        /// The pause the server asks for.
        retry_after: Option<Duration>,
    },
    /// A server answered with neither a document nor its absence, such as a redirect to another origin.
    #[error(
        "{url} answered with status {status}, which is neither a document nor its absence; check the address"
    )]
    UnexpectedStatus {
        /// Where the request went, without query.
        url: String,
        /// The status.
        status: u16,
    },
    /// The challenge names metadata that is not there.
    #[error(
        "the server names its protected resource metadata in the challenge, but there is none at that address nor at the well-known ones; tell the operator of the server"
    )]
    ResourceMetadataMissing,
    /// The metadata speaks of another server.
    #[error(
        "the protected resource metadata is for {resource}, not for {server}; the client asks for no token for another resource (set `resource` if the text is known to be right)"
    )]
    ResourceMismatch {
        /// The published text.
        resource: String,
        /// The address of the server.
        server: String,
    },
    /// The metadata names no authorization server.
    #[error("the protected resource metadata names no authorization server; set `issuer`")]
    NoAuthorizationServer,
    /// The pinned issuer is not among those the server names.
    #[error(
        "the pinned issuer {pinned} is not among the authorization servers of the MCP server; check `issuer`, or whether the server was moved or taken over"
    )]
    PinnedIssuerNotListed {
        /// The pinned issuer.
        pinned: String,
    },
    /// The authorization server publishes no metadata.
    #[error(
        "the authorization server {issuer} publishes no metadata at its well-known addresses; tell its operator, or set `issuer`"
    )]
    IssuerMetadataMissing {
        /// The issuer.
        issuer: String,
    },
    /// The metadata speaks of another issuer.
    #[error("the metadata of {expected} names the issuer {found}; nothing of it is used")]
    IssuerMismatch {
        /// The issuer whose metadata was asked for.
        expected: String,
        /// The issuer in the document.
        found: String,
    },
    /// The discovery has ended before.
    #[error("the discovery has ended; start another one")]
    Ended,
}
