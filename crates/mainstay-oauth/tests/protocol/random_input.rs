//! Truncated, damaged and random input: typed errors, no panic.

use mainstay_oauth::{
    AddressRules, AuthorizationServerMetadata, HttpResponse, Login, LoginGrant, LoginOptions, LoginStep,
    ResourceMetadata, pasted_query,
};
use serde_json::json;

use crate::support::{
    ISSUER, REDIRECT, SERVER, challenge, options, resource_metadata, server_metadata, url, with_context,
};

/// Bytes with a meaning in JSON, headers or queries.
const SYNTAX: &[u8] = b"{}[]\",:\\0-.en&%=+ \x00\xff";

/// A small generator of numbers that are the same on every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    /// A document with some bytes changed, or cut off, or replaced.
    fn damage(&mut self, document: &[u8]) -> Vec<u8> {
        let mut bytes = document.to_vec();
        match self.below(4) {
            0 => bytes.truncate(self.below(document.len() + 1)),
            1 => {
                bytes = (0..self.below(200))
                    .map(|_| self.next().to_le_bytes()[0])
                    .collect();
            }
            _ => {
                for _ in 0..=self.below(4) {
                    let at = self.below(bytes.len());
                    bytes[at] = match self.below(3) {
                        0 => SYNTAX[self.below(SYNTAX.len())],
                        _ => self.next().to_le_bytes()[0],
                    };
                }
            }
        }
        bytes
    }
}

#[test]
fn headers_of_any_form_are_parsed_without_panic() {
    let header = r#"Basic realm="x\"y", Bearer error="insufficient_scope", scope="a b", resource_metadata="https://é.example""#;
    for end in 0..=header.len() {
        if let Some(part) = header.get(..end) {
            let _challenge = challenge(part);
        }
    }
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..20_000 {
        let bytes = numbers.damage(header.as_bytes());
        let text = String::from_utf8_lossy(&bytes);
        let challenge = challenge(&text);
        assert!(
            challenge
                .scopes
                .iter()
                .all(|scope| !scope.is_empty() && scope.is_ascii())
        );
        let _query = pasted_query(&text);
    }
    let long = format!("Bearer scope=\"{}\"", "é ".repeat(20_000));
    let _challenge = challenge(&long);
}

#[test]
fn documents_of_any_form_are_parsed_without_panic() {
    let rules = AddressRules::for_server(&url(SERVER), true);
    let mut numbers = Numbers(42);
    let resource = resource_metadata().to_string();
    let server = server_metadata(ISSUER).to_string();
    for end in 0..server.len() {
        let response = HttpResponse::json(200, &server.as_bytes()[..end]);
        assert!(
            AuthorizationServerMetadata::parse(&response, &rules).is_err(),
            "cut at {end}"
        );
    }
    for _ in 0..5_000 {
        let _document =
            ResourceMetadata::parse(&HttpResponse::json(200, numbers.damage(resource.as_bytes())));
        let response = HttpResponse::json(200, numbers.damage(server.as_bytes()));
        let _document = AuthorizationServerMetadata::parse(&response, &rules);
    }
}

#[test]
fn whole_logins_with_damaged_answers_end_without_panic_and_never_loop() {
    let mut numbers = Numbers(7);
    let answers = [
        resource_metadata().to_string(),
        server_metadata(ISSUER).to_string(),
        json!({"client_id": "c", "client_secret": "s"}).to_string(),
        json!({"device_code": "d", "user_code": "u", "verification_uri": "https://a.example", "expires_in": 60}).to_string(),
        json!({"access_token": "at", "expires_in": 60, "refresh_token": "rt", "scope": "a"}).to_string(),
        json!({"error": "authorization_pending"}).to_string(),
    ];
    let mut completed = 0;
    for round in 0..3_000 {
        let mut options: LoginOptions = options();
        if round % 2 == 0 {
            options.grant = LoginGrant::Device;
        }
        let (mut login, mut step) = Login::start(options).unwrap();
        for turn in 0.. {
            assert!(turn < 200, "a login without end");
            let next = match step {
                LoginStep::Send(request) => {
                    let usual = ["protected", "well-known", "register", "device", "token"];
                    let usual = usual
                        .iter()
                        .position(|part| request.url.path().contains(part))
                        .unwrap_or(4);
                    let answer = if numbers.below(10) == 0 {
                        numbers.below(answers.len())
                    } else {
                        usual
                    };
                    let mut body = answers[answer].clone().into_bytes();
                    if numbers.below(10) == 0 {
                        body = numbers.damage(&body);
                    }
                    let status = [200, 200, 200, 200, 201, 201, 201, 400, 404, 503][numbers.below(10)];
                    with_context(|context| login.handle_response(&HttpResponse::json(status, body), context))
                }
                LoginStep::Listen { .. } => {
                    with_context(|context| login.handle_listening(url(REDIRECT), context))
                }
                LoginStep::Browse(address) => {
                    let query = address
                        .url()
                        .query()
                        .unwrap()
                        .replace("response_type=code", "code=c");
                    let query = if numbers.below(4) == 0 {
                        numbers.damage(query.as_bytes())
                    } else {
                        query.into_bytes()
                    };
                    with_context(|context| login.handle_callback(&String::from_utf8_lossy(&query), context))
                }
                LoginStep::ShowCode { .. } | LoginStep::Wait { .. } => {
                    with_context(|context| login.resume(context))
                }
                LoginStep::Done(_) => {
                    completed += 1;
                    break;
                }
            };
            match next {
                Ok(next) => step = next,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    break;
                }
            }
        }
    }
    assert!(
        completed > 100,
        "the walk reaches the end often enough to mean something: {completed}"
    );
}
