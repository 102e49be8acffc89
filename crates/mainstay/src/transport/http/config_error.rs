//! Why a server cannot be reached as configured.

use std::path::PathBuf;

/// Why a server cannot be reached over HTTP as configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpConfigError {
    /// The address cannot be read.
    #[error("{url:?} is no address: {reason}")]
    NotAnAddress {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The address is none of HTTP.
    #[error("{scheme:?} is not a scheme of HTTP: use http or https")]
    UnknownScheme {
        /// What was given.
        scheme: String,
    },
    /// The address holds a user name or a password, which is not shown here.
    #[error(
        "the address holds a user name or a password, which would be shown wherever the address is: send it in the header \
         Authorization instead"
    )]
    CredentialInAddress,
    /// A header cannot be sent so. Its value may be a secret, and is not shown.
    #[error("the {part} of the header {name:?} holds a character that no header may hold")]
    BadHeader {
        /// The header.
        name: String,
        /// "name" or "value".
        part: &'static str,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file holds no certificate, or no key.
    #[error("{path} holds no {what} in PEM format")]
    NoPem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
    /// TLS cannot be set up so.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// The proxy that the environment names is of a kind that is not supported.
    #[error(
        "the environment names a proxy of the kind {scheme:?}, which is not supported: name one that begins with \
         socks5h://, socks5://, http:// or https://, or exempt the host in NO_PROXY"
    )]
    UnsupportedProxy {
        /// The scheme of its address.
        scheme: String,
    },
    /// This build of the library lacks what the address needs.
    #[error(
        "this program was built without the cargo feature `{feature}` of mainstay, which the address needs"
    )]
    MissingFeature {
        /// The cargo feature.
        feature: &'static str,
    },
    /// The client cannot be set up so.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}
