//! Which server a configuration means.
//!
//! Two configurations with the same identity start the same thing, so a running connection and a stored catalog stay
//! good. Names, views, timeouts, policies and a pinned era are no part of it: changing them reconnects nothing, and
//! what of them concerns the opening of a connection counts from the next one on.

use std::fmt;

use sha2::{Digest, Sha256};

use super::target::{HttpTarget, StdioTarget, Target};
use crate::protocol::Era;
use crate::wire::RawJson;

/// Names the encoding below. Another encoding needs another name, or old stores would be taken for new ones.
const ENCODING: &[u8] = b"mainstay identity 1";

/// SHA-256 over how a server is reached: command, arguments, environment and working directory, or address, transport,
/// headers, token, certificates and socket. Prints as hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerIdentity([u8; 32]);

impl ServerIdentity {
    pub(super) fn of(target: &Target) -> Self {
        let mut hash = Canonical(Sha256::new());
        hash.bytes(ENCODING);
        match target {
            Target::Stdio(stdio) => hash.stdio(stdio),
            Target::Http(http) => hash.http(http),
            Target::Custom(custom) => {
                hash.bytes(b"custom");
                hash.bytes(custom.identity.as_bytes());
            }
            Target::Unusable(unusable) => {
                hash.bytes(b"unusable");
                hash.bytes(unusable.reason.as_bytes());
            }
        }
        Self(hash.0.finalize().into())
    }

    /// The same server as it shows itself to the owner of a login.
    pub(crate) fn seen_by_owner(&self, owner: &str) -> Self {
        let mut hash = Canonical(Sha256::new());
        hash.bytes(ENCODING);
        hash.bytes(b"owner");
        hash.bytes(&self.0);
        hash.bytes(owner.as_bytes());
        Self(hash.0.finalize().into())
    }

    /// The same server as it shows itself to a client of this name, which speaks this era and can answer this.
    pub(crate) fn shown_to(&self, name: Option<&RawJson>, era: Era, capabilities: &RawJson) -> Self {
        let mut hash = Canonical(Sha256::new());
        hash.bytes(ENCODING);
        hash.bytes(b"shown to");
        hash.bytes(&self.0);
        hash.optional(name.map(RawJson::as_bytes));
        hash.bytes(era.as_str().as_bytes());
        hash.bytes(capabilities.as_bytes());
        Self(hash.0.finalize().into())
    }
}

impl fmt::Display for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerIdentity({self})")
    }
}

/// Every part is preceded by its length, every list by its count, so no two targets share an encoding.
struct Canonical(Sha256);

impl Canonical {
    fn stdio(&mut self, target: &StdioTarget) {
        self.bytes(b"stdio");
        self.bytes(target.command.value().as_bytes());
        self.count(target.args.len());
        for arg in &target.args {
            self.bytes(arg.value().as_bytes());
        }
        self.count(target.env.len());
        for (name, value) in &target.env {
            self.bytes(name.as_bytes());
            self.bytes(value.expose().as_bytes());
        }
        self.optional(target.cwd.as_ref().map(|cwd| cwd.value().as_bytes()));
    }

    /// Who asks is part of it: a server may show every client tools of its own.
    fn http(&mut self, target: &HttpTarget) {
        self.bytes(b"http");
        self.bytes(target.url.value().as_bytes());
        self.bytes(target.kind.as_str().as_bytes());
        self.count(target.headers.len());
        for (name, value) in &target.headers {
            self.bytes(name.to_ascii_lowercase().as_bytes());
            self.bytes(value.expose().as_bytes());
        }
        self.optional(
            target
                .bearer_token
                .as_ref()
                .map(|token| token.expose().as_bytes()),
        );
        let certificate = target.client_certificate.as_ref();
        let paths = [
            target.root_certificates.as_ref(),
            certificate.map(|files| &files.certificate),
            certificate.map(|files| &files.key),
            target.unix_socket.as_ref(),
        ];
        for path in paths {
            let bytes = path.map(|path| path.path().as_os_str().as_encoded_bytes());
            self.optional(bytes);
        }
    }

    fn optional(&mut self, bytes: Option<&[u8]>) {
        self.count(usize::from(bytes.is_some()));
        if let Some(bytes) = bytes {
            self.bytes(bytes);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.update(bytes);
    }

    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use crate::config::ServerConfig;
    use crate::config::builder::ServerBuilder;
    use crate::config::target::{HttpKind, HttpTarget, StdioTarget, Target};
    use crate::protocol::Era;
    use std::time::Duration;

    fn base() -> ServerBuilder<StdioTarget> {
        ServerConfig::stdio("files", "run")
            .args(["a", "b"])
            .env("K", "v")
            .cwd("/srv")
    }

    fn identity(builder: ServerBuilder<impl Into<Target>>) -> String {
        builder.build().unwrap().identity().to_string()
    }

    #[test]
    fn everything_that_changes_what_runs_changes_the_identity() {
        let changed = [
            base().arg("c"),
            base().env("K", "w"),
            base().env("L", "v"),
            base().cwd("/srv2"),
            ServerConfig::stdio("files", "run2")
                .args(["a", "b"])
                .env("K", "v")
                .cwd("/srv"),
            ServerConfig::stdio("files", "run")
                .args(["ab"])
                .env("K", "v")
                .cwd("/srv"),
            ServerConfig::stdio("files", "run")
                .args(["a", "b", "K", "v"])
                .cwd("/srv"),
            ServerConfig::stdio("files", "run").args(["a", "b"]).env("K", "v"),
        ];
        let mut seen = vec![identity(base())];
        for builder in changed {
            let new = identity(builder);
            assert!(!seen.contains(&new));
            seen.push(new);
        }
    }

    #[test]
    fn name_view_and_policy_leave_the_identity_alone() {
        let other = ServerConfig::stdio("other", "run")
            .args(["a", "b"])
            .env("K", "v")
            .cwd("/srv")
            .call_timeout(Duration::from_secs(3))
            .enabled(false)
            .lazy(true);
        assert_eq!(identity(base()), identity(other));
    }

    fn web() -> ServerBuilder<HttpTarget> {
        ServerConfig::http("web", "https://mcp.example/mcp").header("X-Key", "v")
    }

    #[test]
    fn everything_that_changes_who_speaks_to_whom_changes_the_identity() {
        let changed = [
            ServerConfig::http("web", "https://mcp.example/other").header("X-Key", "v"),
            ServerConfig::http("web", "https://mcp.example/mcp"),
            ServerConfig::http("web", "https://mcp.example/mcp").header("X-Key", "w"),
            ServerConfig::http("web", "https://mcp.example/mcp").header("X-Other", "v"),
            web().header("X-Other", "v"),
            web().bearer_token("one"),
            web().bearer_token("two"),
            web().http_kind(HttpKind::Sse),
            web().http_kind(HttpKind::Streamable),
            web().unix_socket("/run/a.sock"),
            web().unix_socket("/run/b.sock"),
        ];
        let same_text = ServerConfig::stdio("web", "https://mcp.example/mcp");
        let mut seen = vec![identity(web()), identity(same_text)];
        for builder in changed {
            let new = identity(builder);
            assert!(!seen.contains(&new));
            seen.push(new);
        }
    }

    #[test]
    fn patience_and_a_pinned_era_leave_the_identity_alone() {
        let other = ServerConfig::http("other", "https://mcp.example/mcp")
            .header("x-key", "v")
            .connect_timeout(Duration::from_secs(3))
            .first_byte_timeout(Duration::from_secs(3))
            .era(Era::Legacy);
        assert_eq!(identity(web()), identity(other));
    }

    #[test]
    fn the_identity_is_stable_across_versions() {
        // A stored catalog is found by this text: a change of the encoding must be a decision, not an accident.
        assert_eq!(
            identity(base()),
            "2534af8c182a42c5f812f1dbcdc3997df4f5602f3173671e583732b4a0d13dbf"
        );
        assert_eq!(
            identity(web()),
            "f30c234a786440e7a035e2e075b9b3ca5a5916ef7c7a89eaee807173a84f1e3f"
        );
    }
}
