//! A scripted MCP server, authorization server and person.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainstay_oauth::{
    AuthChallenge, CompletedLogin, Context, HttpRequest, HttpResponse, Login, LoginError, LoginOptions,
    LoginStep, Revision,
};
use ring::rand::SystemRandom;
use serde_json::{Value, json};
use url::Url;

pub(crate) const SERVER: &str = "https://mcp.example.com/mcp";
pub(crate) const ISSUER: &str = "https://auth.example.com";
pub(crate) const RESOURCE_PATH: &str = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
pub(crate) const RESOURCE_ROOT: &str = "https://mcp.example.com/.well-known/oauth-protected-resource";
pub(crate) const ISSUER_OAUTH: &str = "https://auth.example.com/.well-known/oauth-authorization-server";
pub(crate) const ISSUER_OPENID: &str = "https://auth.example.com/.well-known/openid-configuration";
pub(crate) const TOKEN: &str = "https://auth.example.com/token";
pub(crate) const REGISTER: &str = "https://auth.example.com/register";
pub(crate) const REDIRECT: &str = "http://127.0.0.1:4321/callback";

pub(crate) fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

pub(crate) fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

pub(crate) fn with_context<T>(f: impl FnOnce(&Context<'_>) -> T) -> T {
    f(&Context::new(now(), &SystemRandom::new()))
}

/// Options for [`SERVER`] at the newest revision.
pub(crate) fn options() -> LoginOptions {
    LoginOptions::new(url(SERVER))
}

pub(crate) fn options_at(revision: Revision) -> LoginOptions {
    let mut options = options();
    options.revision = revision;
    options
}

pub(crate) fn challenge(header: &str) -> AuthChallenge {
    let parsed = mainstay::transport::http::Challenge::parse([header]);
    AuthChallenge {
        resource_metadata: parsed.resource_metadata,
        scopes: parsed.scopes,
        error: parsed.error,
    }
}

pub(crate) fn resource_metadata() -> Value {
    json!({"resource": SERVER, "authorization_servers": [ISSUER]})
}

/// The metadata of a server that can do everything and registers public clients.
pub(crate) fn server_metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "registration_endpoint": format!("{issuer}/register"),
        "device_authorization_endpoint": format!("{issuer}/device"),
        "revocation_endpoint": format!("{issuer}/revoke"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    })
}

/// Changes or removes (`null`) members of a document.
pub(crate) fn but(mut document: Value, changes: Value) -> Value {
    let (Some(members), Value::Object(changes)) = (document.as_object_mut(), changes) else {
        panic!("documents are objects");
    };
    for (name, value) in changes {
        if value.is_null() {
            members.remove(&name);
        } else {
            members.insert(name, value);
        }
    }
    document
}

/// A request as the scripted servers saw it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) method: &'static str,
    pub(crate) url: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: String,
}

impl Sent {
    pub(crate) fn of(request: &HttpRequest) -> Self {
        Self {
            method: request.method(),
            url: request.url.to_string(),
            authorization: request
                .authorization
                .as_ref()
                .map(|value| value.expose().to_owned()),
            body: request
                .body
                .as_ref()
                .map(|body| body.text.expose().to_owned())
                .unwrap_or_default(),
        }
    }

    /// The parameters of a form body. A parameter that comes twice is a fault.
    pub(crate) fn form(&self) -> BTreeMap<String, String> {
        parameters(&self.body)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

pub(crate) fn parameters(query: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()).into_owned() {
        assert!(
            found.insert(name.clone(), value).is_none(),
            "{name} comes twice in {query}"
        );
    }
    found
}

type Person = Box<dyn Fn(&BTreeMap<String, String>) -> String>;

/// What the servers answer, what the person does, and what happened.
pub(crate) struct Script {
    answers: BTreeMap<String, Vec<HttpResponse>>,
    person: Person,
    /// The port the listener binds, if it is not the wanted one.
    pub(crate) bound: Option<u16>,
    pub(crate) sent: Vec<Sent>,
    /// The parameters of the address in the browser.
    pub(crate) browsed: Option<BTreeMap<String, String>>,
    pub(crate) listened: Option<Option<u16>>,
    pub(crate) waits: Vec<Duration>,
    /// Everything that `Debug` and `Display` showed during the run.
    pub(crate) shown: String,
}

impl Script {
    /// Servers that know nothing: every address answers 404.
    pub(crate) fn empty() -> Self {
        Self {
            answers: BTreeMap::new(),
            person: Box::new(|asked| format!("code=c1&state={}", asked["state"])),
            bound: None,
            sent: Vec::new(),
            browsed: None,
            listened: None,
            waits: Vec::new(),
            shown: String::new(),
        }
    }

    /// A server and an authorization server at the usual places.
    pub(crate) fn usual() -> Self {
        Self::empty()
            .json(RESOURCE_PATH, &resource_metadata())
            .json(ISSUER_OAUTH, &server_metadata(ISSUER))
            .answer(REGISTER, 201, &json!({"client_id": "registered"}))
            .json(TOKEN, &json!({"access_token": "at1", "token_type": "Bearer", "expires_in": 60, "refresh_token": "rt1"}))
    }

    pub(crate) fn json(self, address: &str, document: &Value) -> Self {
        self.answer(address, 200, document)
    }

    /// Sets the answer of an address.
    pub(crate) fn answer(mut self, address: &str, status: u16, document: &Value) -> Self {
        let response = HttpResponse::json(status, document.to_string());
        self.answers.insert(address.to_owned(), vec![response]);
        self
    }

    pub(crate) fn raw(mut self, address: &str, response: HttpResponse) -> Self {
        self.answers.insert(address.to_owned(), vec![response]);
        self
    }

    /// Adds a later answer of an address; the last one is repeated.
    pub(crate) fn then(mut self, address: &str, status: u16, document: &Value) -> Self {
        let response = HttpResponse::json(status, document.to_string());
        self.answers.entry(address.to_owned()).or_default().push(response);
        self
    }

    pub(crate) fn person(mut self, person: impl Fn(&BTreeMap<String, String>) -> String + 'static) -> Self {
        self.person = Box::new(person);
        self
    }

    /// Drives a login to its end, as a driver does.
    pub(crate) fn run(&mut self, options: LoginOptions) -> Result<CompletedLogin, LoginError> {
        let result = self.drive(options);
        match &result {
            Ok(completed) => self.shown += &format!("{completed:?}"),
            Err(error) => self.shown += &format!("{error} {error:?}"),
        }
        result
    }

    fn drive(&mut self, options: LoginOptions) -> Result<CompletedLogin, LoginError> {
        let random = SystemRandom::new();
        let mut time = now();
        let (mut login, mut step) = Login::start(options)?;
        for _ in 0..40 {
            self.shown += &format!("{login:?} {step:?}");
            let context = Context::new(time, &random);
            step = match step {
                LoginStep::Send(request) => {
                    let response = self.respond(&request);
                    login.handle_response(&response, &context)?
                }
                LoginStep::Listen { port } => {
                    self.listened = Some(port);
                    let mut uri = url(REDIRECT);
                    uri.set_port(self.bound.or(port).or(uri.port())).unwrap();
                    login.handle_listening(uri, &context)?
                }
                LoginStep::Browse(address) => {
                    let asked = parameters(address.url().query().unwrap());
                    let query = (self.person)(&asked);
                    self.browsed = Some(asked);
                    login.handle_callback(&query, &context)?
                }
                LoginStep::ShowCode { until, .. } | LoginStep::Wait { until } => {
                    self.waits.push(until.duration_since(time).unwrap());
                    time = until;
                    login.resume(&Context::new(time, &random))?
                }
                LoginStep::Done(completed) => return Ok(*completed),
            };
        }
        panic!("the login does not end");
    }

    fn respond(&mut self, request: &HttpRequest) -> HttpResponse {
        let sent = Sent::of(request);
        let address = sent.url.clone();
        self.sent.push(sent);
        match self.answers.get_mut(&address) {
            Some(answers) if answers.len() > 1 => answers.remove(0),
            Some(answers) => answers[0].clone(),
            None => HttpResponse::json(404, "not found"),
        }
    }

    /// The addresses that were asked, in order.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        self.sent.iter().map(|sent| sent.url.as_str()).collect()
    }

    pub(crate) fn sent_to(&self, address: &str) -> Vec<&Sent> {
        self.sent.iter().filter(|sent| sent.url == address).collect()
    }

    /// The one request to an address.
    pub(crate) fn only(&self, address: &str) -> &Sent {
        let all = self.sent_to(address);
        assert_eq!(all.len(), 1, "{address} in {:?}", self.addresses());
        all[0]
    }

    pub(crate) fn browsed(&self, parameter: &str) -> Option<&str> {
        let browsed = self.browsed.as_ref().expect("the browser was opened");
        browsed.get(parameter).map(String::as_str)
    }
}
