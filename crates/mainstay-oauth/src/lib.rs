//! The OAuth protocol of MCP clients, without IO.
//!
//! Documents and responses go in; the next request, or a typed refusal, comes out. The crate opens no connection, reads
//! no clock and draws no random number by itself: the caller sends the requests and hands in a [`Context`] with the time
//! and a source of random numbers. It knows the authorization rules of the four MCP revisions since 2025-03-26.
//!
//! # The run loop
//!
//! A [`Login`] is a machine. Each method takes the result of the last [`LoginStep`] and returns the next one:
//!
//! ```
//! use std::time::SystemTime;
//!
//! use mainstay_oauth::{AuthChallenge, Context, HttpRequest, HttpResponse, Login, LoginError, LoginOptions, LoginRecord, LoginStep};
//! use url::Url;
//!
//! fn log_in(server: Url, challenge: AuthChallenge) -> Result<LoginRecord, LoginError> {
//!     let random = ring::rand::SystemRandom::new();
//!     let mut options = LoginOptions::new(server);
//!     options.challenge = challenge;
//!
//!     let (mut login, mut step) = Login::start(options)?;
//!     loop {
//!         let context = || Context::new(SystemTime::now(), &random);
//!         step = match step {
//!             // Connect only to addresses that `login.rules().permits(…)`, with a timeout and a limit for the body.
//!             LoginStep::Send(request) => login.handle_response(&send(&request), &context())?,
//!             // Bind the port, or any other if it is taken, before the browser opens.
//!             LoginStep::Listen { port } => login.handle_listening(listen(port), &context())?,
//!             // A refused callback leaves the login waiting, unless the error says that it ends the login.
//!             LoginStep::Browse(address) => loop {
//!                 match login.handle_callback(&callback(address.url()), &context()) {
//!                     Err(LoginError::Callback(error)) if !error.ends_login() => continue,
//!                     next => break next?,
//!                 }
//!             },
//!             LoginStep::ShowCode { prompt, until } => {
//!                 println!("open {} and enter {}", prompt.verification_uri, prompt.user_code);
//!                 wait(until);
//!                 login.resume(&context())?
//!             }
//!             LoginStep::Wait { until } => {
//!                 wait(until);
//!                 login.resume(&context())?
//!             }
//!             // Save the record, and the registration if there is one, before the token is used.
//!             LoginStep::Done(completed) => return Ok(completed.record),
//!         };
//!     }
//! }
//! #
//! # fn send(request: &HttpRequest) -> HttpResponse {
//! #     match request.url.as_str() {
//! #         "https://mcp.example.com/.well-known/oauth-protected-resource/mcp" => HttpResponse::json(200,
//! #             r#"{"resource":"https://mcp.example.com/mcp","authorization_servers":["https://auth.example.com"]}"#),
//! #         "https://auth.example.com/.well-known/oauth-authorization-server" => HttpResponse::json(200,
//! #             r#"{"issuer":"https://auth.example.com","authorization_endpoint":"https://auth.example.com/authorize",
//! #                 "token_endpoint":"https://auth.example.com/token","registration_endpoint":"https://auth.example.com/register",
//! #                 "code_challenge_methods_supported":["S256"],"token_endpoint_auth_methods_supported":["none"]}"#),
//! #         "https://auth.example.com/register" => HttpResponse::json(201, r#"{"client_id":"c1"}"#),
//! #         "https://auth.example.com/token" => HttpResponse::json(200, r#"{"access_token":"at1","token_type":"Bearer"}"#),
//! #         other => panic!("{other}"),
//! #     }
//! # }
//! # fn listen(_port: Option<u16>) -> Url { Url::parse("http://127.0.0.1:4321/callback").unwrap() }
//! # fn callback(address: &Url) -> String {
//! #     let state = address.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
//! #     format!("code=abc&state={state}")
//! # }
//! # fn wait(_until: SystemTime) {}
//! #
//! # let challenge = AuthChallenge { scopes: vec!["files:read".to_owned()], ..AuthChallenge::default() };
//! # let record = log_in(Url::parse("https://mcp.example.com/mcp").unwrap(), challenge).unwrap();
//! # assert_eq!(record.granted_scopes, ["files:read"]);
//! ```
//!
//! [`LoginGrant`] chooses how the token is obtained: by a person in a browser, by a person on another device, or without
//! a person. The loop is the same for all of them.
//!
//! # After the login
//!
//! - [`LoginRecord::authorization`] is the header of every request to the MCP server, and of no request to another one.
//! - [`Renewal`] refreshes a record. Only [`TokenError::InvalidGrant`] for the stored refresh token ends a login.
//! - [`StepUp`] decides whether a 403 leads to another login, and stops after [`AUTHORIZATION_LIMIT`].
//! - [`revocation_requests`] ends a login at the authorization server.
//!
//! [`Registration`] and [`LoginRecord`] are the forms that a store keeps, with a version. Both are kept by issuer: what
//! one authorization server gave out is never sent to another one.
//!
//! # What the caller has to do
//!
//! The caller bounds bodies (1 MiB) and waits (10 s), follows no redirect of a POST and only redirects within the origin
//! of a GET, and asks [`AddressRules::permits`] for each address it connects to. A name in a document proves nothing:
//! what it resolves to counts.
//!
//! # Why no JWT library
//!
//! The crate signs client assertions and verifies nothing. Such a JWT is two JSON objects and a signature that `ring`
//! makes. The JWT libraries choose one cryptography provider for the whole process by cargo features, which clash with
//! those of other crates and then panic, and they bring up to 38 crates.

mod address;
mod callback;
mod challenge;
mod client;
mod context;
mod device;
mod discovery;
mod document;
mod dynamic;
mod form;
mod grant;
mod http;
mod ip;
mod login;
mod metadata;
mod pkce;
mod record;
mod registration;
mod renewal;
mod resource;
mod revision;
mod scope;
mod secret;
mod settings;
mod signing;
mod step_up;
mod token;
mod well_known;

pub use address::{AddressError, AddressRules};
pub use callback::{CallbackError, pasted_query};
pub use challenge::AuthChallenge;
pub use client::{AuthMethod, ClientAuthentication, ClientError, OAuthClient};
pub use context::{Context, NoRandomness};
pub use device::{DeviceError, DevicePrompt};
pub use discovery::{Discovered, Discovery, DiscoveryError, DiscoveryOptions, DiscoveryStep};
pub use document::DocumentError;
pub use dynamic::RegistrationError;
pub use grant::{IdentityProvider, LoginGrant, SubjectKind, SubjectToken};
pub use http::{HttpBody, HttpRequest, HttpResponse};
pub use ip::AddressClass;
pub use login::{AuthorizationAddress, CompletedLogin, Login, LoginError, LoginStep};
pub use metadata::{AuthorizationServerMetadata, MetadataError};
pub use record::LoginRecord;
pub use registration::{Registration, STORED_VERSION};
pub use renewal::{Renewal, RenewalError, revocation_requests};
pub use resource::ResourceMetadata;
pub use revision::{Revision, UnknownRevision};
pub use scope::{ScopeSources, choose_scopes};
pub use secret::SecretText;
pub use settings::{ClientSettings, ConfiguredClient, LoginOptions, ResourceSetting};
pub use signing::{KeyError, SigningAlgorithm, SigningKey};
pub use step_up::{AUTHORIZATION_LIMIT, StepUp, StepUpError};
pub use token::{IssuedTokens, TokenError};
