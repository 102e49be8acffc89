//! Which addresses the client sends requests to, opens in a browser, or accepts as issuers.

use std::net::IpAddr;

use url::{Host, Url};

use crate::document::TEXT_LIMIT;
use crate::ip::AddressClass;

/// The rules for addresses that come from the MCP server or from an authorization server.
///
/// Every address is `https`. `http` is for loopback hosts only, and those are for MCP servers that are on a loopback
/// host themselves: a server on the internet must not send the client to services of the user's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRules {
    allow_loopback: bool,
    allow_private: bool,
}

/// An address that the rules refuse. The message shows the origin alone: the rest may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text is no absolute address.
    #[error("the {role} is not an absolute URL")]
    NotAnAddress {
        /// What the address is for.
        role: &'static str,
    },
    /// The scheme is neither `https` nor, on loopback hosts, `http`.
    #[error(
        "the {role} uses the scheme `{scheme}`; only https is accepted, and http on loopback hosts of a local server (`allow_private` lifts this)"
    )]
    Scheme {
        /// What the address is for.
        role: &'static str,
        /// The scheme.
        scheme: String,
    },
    /// The address holds a user name or a password.
    #[error("the {role} holds a user name or password, which is not accepted")]
    UserInfo {
        /// What the address is for.
        role: &'static str,
    },
    /// The address holds a fragment.
    #[error("the {role} holds a fragment (`#…`), which is not accepted")]
    Fragment {
        /// What the address is for.
        role: &'static str,
    },
    /// An issuer with a query.
    #[error("the {role} holds a query (`?…`), which is not accepted")]
    Query {
        /// What the address is for.
        role: &'static str,
    },
    /// The host is not on the internet.
    #[error(
        "the {role} is on {host}, which is not a public address; set `allow_private` if this server is meant to be there"
    )]
    NotPublic {
        /// What the address is for.
        role: &'static str,
        /// The host.
        host: String,
    },
    /// The address is longer than browsers and proxies accept.
    #[error("the {role} is longer than {TEXT_LIMIT} characters")]
    TooLong {
        /// What the address is for.
        role: &'static str,
    },
}

impl AddressRules {
    /// The rules for one MCP server. `allow_private` is what a person configured for this server.
    pub fn for_server(server: &Url, allow_private: bool) -> Self {
        Self {
            allow_loopback: is_loopback(server),
            allow_private,
        }
    }

    /// Whether the client may connect to this address. The caller asks when it connects, for every address a name
    /// resolves to: the name in a URL proves nothing.
    pub fn permits(&self, address: IpAddr) -> bool {
        match AddressClass::of(address) {
            AddressClass::Public => true,
            AddressClass::Loopback => self.allow_loopback || self.allow_private,
            AddressClass::Private
            | AddressClass::UniqueLocal
            | AddressClass::Shared
            | AddressClass::Benchmarking => self.allow_private,
            AddressClass::LinkLocal
            | AddressClass::Documentation
            | AddressClass::Multicast
            | AddressClass::Unspecified
            | AddressClass::Reserved => false,
        }
    }

    /// Checks the text of an address; `role` says in errors what the address is for.
    pub fn check(&self, role: &'static str, text: &str) -> Result<Url, AddressError> {
        if text.len() > TEXT_LIMIT {
            return Err(AddressError::TooLong { role });
        }
        let url = Url::parse(text).map_err(|_error| AddressError::NotAnAddress { role })?;
        self.check_url(role, &url)?;
        Ok(url)
    }

    pub(crate) fn check_url(&self, role: &'static str, url: &Url) -> Result<(), AddressError> {
        let plain = url.scheme() == "http" && (is_loopback(url) || self.allow_private);
        if url.scheme() != "https" && !plain {
            let scheme = url.scheme().chars().take(20).collect();
            return Err(AddressError::Scheme { role, scheme });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::UserInfo { role });
        }
        if url.fragment().is_some() {
            return Err(AddressError::Fragment { role });
        }
        let permitted = match url.host() {
            Some(Host::Ipv4(address)) => self.permits(address.into()),
            Some(Host::Ipv6(address)) => self.permits(address.into()),
            Some(Host::Domain(_)) => !is_loopback(url) || self.allow_loopback || self.allow_private,
            None => false,
        };
        if !permitted {
            let host = url.host_str().unwrap_or_default().to_owned();
            return Err(AddressError::NotPublic { role, host });
        }
        Ok(())
    }

    /// Checks an issuer: an address without a query (RFC 8414 section 2).
    pub(crate) fn check_issuer(&self, role: &'static str, text: &str) -> Result<Url, AddressError> {
        let url = self.check(role, text)?;
        if url.query().is_some() {
            return Err(AddressError::Query { role });
        }
        Ok(url)
    }
}

/// Checks an address the authorization server may redirect the browser to: on a loopback host, or `https`.
pub(crate) fn check_redirect(url: &Url) -> Result<(), AddressError> {
    let role = "redirect URI";
    let plain = url.scheme() == "http" && is_loopback(url);
    if url.scheme() != "https" && !plain {
        let scheme = url.scheme().to_owned();
        return Err(AddressError::Scheme { role, scheme });
    }
    if url.fragment().is_some() {
        return Err(AddressError::Fragment { role });
    }
    Ok(())
}

/// Whether the host of an address is this machine, by its name or by its number.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => AddressClass::of(address.into()) == AddressClass::Loopback,
        Some(Host::Ipv6(address)) => AddressClass::of(address.into()) == AddressClass::Loopback,
        None => false,
    }
}

#[cfg(test)]
mod tests;
