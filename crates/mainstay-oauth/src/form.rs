//! Form bodies, and how a client authenticates in them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::Url;

use crate::client::{ClientAuthentication, OAuthClient};
use crate::context::Context;
use crate::http::HttpRequest;
use crate::secret::SecretText;
use crate::signing::KeyError;

const FORM: &str = "application/x-www-form-urlencoded";
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The parameters of a request to an authorization server, in order.
#[derive(Clone, Default)]
pub(crate) struct Form(Vec<(&'static str, String)>);

/// The values may be secrets, so only the names are shown.
impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl Form {
    pub(crate) fn grant(grant_type: &str) -> Self {
        Self::default().with("grant_type", grant_type)
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.0.push((name, value.to_owned()));
        self
    }

    pub(crate) fn with_some(self, name: &'static str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The scopes, or no parameter at all if there are none.
    pub(crate) fn with_scopes(self, scopes: &[String]) -> Self {
        if scopes.is_empty() {
            return self;
        }
        self.with("scope", &scopes.join(" "))
    }

    /// Adds the parameters to the query of an address.
    pub(crate) fn into_query(self, mut url: Url) -> Url {
        url.query_pairs_mut().extend_pairs(self.0);
        url
    }

    /// A POST. The client authenticates itself, if there is one.
    pub(crate) fn into_request(
        mut self,
        url: Url,
        client: Option<&OAuthClient>,
        context: &Context<'_>,
    ) -> Result<HttpRequest, KeyError> {
        let mut authorization = None;
        if let Some(client) = client {
            let id = client.id.as_str();
            match &client.authentication {
                ClientAuthentication::None => self = self.with("client_id", id),
                // The header names the client: some servers refuse a request that names it twice.
                ClientAuthentication::SecretBasic(secret) => authorization = Some(basic(id, secret)),
                // Others refuse one that names it once.
                ClientAuthentication::SecretBasicWithId(secret) => {
                    self = self.with("client_id", id);
                    authorization = Some(basic(id, secret));
                }
                ClientAuthentication::SecretPost(secret) => {
                    self = self.with("client_id", id).with("client_secret", secret.expose());
                }
                // The assertion names the client; some servers want `client_id` as well, and RFC 7521 allows it.
                ClientAuthentication::PrivateKeyJwt { key, algorithm } => {
                    let assertion = key.client_assertion(*algorithm, id, &client.issuer, context)?;
                    self = self.with("client_id", id);
                    self = self.with("client_assertion_type", ASSERTION_TYPE);
                    self = self.with("client_assertion", &assertion);
                }
            }
        }
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(self.0);
        let mut request = HttpRequest::post(url, FORM, body.finish());
        request.authorization = authorization;
        Ok(request)
    }
}

/// The value of `Authorization` for `client_secret_basic` (RFC 6749 section 2.3.1): both parts form-encoded, then joined.
fn basic(id: &str, secret: &SecretText) -> SecretText {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encode(id), encode(secret.expose()));
    SecretText::new(format!("Basic {}", STANDARD.encode(pair)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_encodes_id_and_secret_before_it_joins_them() {
        let value = |id, secret| basic(id, &SecretText::new(secret)).expose().to_owned();
        // The example of RFC 6749 section 2.3.1.
        assert_eq!(
            value("s6BhdRkqt3", "7Fjfp0ZBr1KtDRbnfVdmIw"),
            "Basic czZCaGRSa3F0Mzo3RmpmcDBaQnIxS3REUmJuZlZkbUl3"
        );
        let odd = STANDARD.encode("a%3Ab%40c:p+q%2B%25%C3%A9");
        assert_eq!(value("a:b@c", "p q+%é"), format!("Basic {odd}"));
    }

    #[test]
    fn an_address_keeps_its_own_query() {
        let url = Url::parse("https://a.example/authorize?tenant=1").unwrap();
        let url = Form::default().with("scope", "a b&c").into_query(url);
        assert_eq!(url.as_str(), "https://a.example/authorize?tenant=1&scope=a+b%26c");
    }
}
