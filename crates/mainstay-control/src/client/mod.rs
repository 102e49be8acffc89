//! A client of the control API, over a unix socket or TCP.

mod error;
mod listener;
mod stream;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use mainstay::config::Secret;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::api::{
    ActorKind, ApiProblem, CatalogDocument, EntryDocument, EventPage, LoginBeginning, LoginCallback,
    LoginProgress, PageLink, PingReport, ProgramStatus, RecordingDocument, RefreshReport, ReloadReport,
    ServerList, ServerStatus, SessionList, StderrPage,
};
use crate::control::REFRESH_TIMEOUT;
use crate::service::API_ROOT;
pub use error::ControlError;
pub use stream::{EventStream, StderrStream};
use stream::{SentEventReader, open_stream};

/// How long a request may take, unless another time is set: longer than a server takes to be stopped.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest answer, in bytes: the status of a hundred thousand servers.
const ANSWER_LIMIT: usize = 128 * 1024 * 1024;

/// A client of the control API. It opens a connection for each request.
#[derive(Clone)]
pub struct ControlClient {
    place: ApiAddress,
    token: Option<Secret>,
    timeout: Duration,
    via: ActorKind,
}

#[derive(Clone, Debug)]
enum ApiAddress {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl ControlClient {
    /// A client for the API on this unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::new(ApiAddress::Unix(path.into()), None)
    }

    /// A client for the API of `mainstay serve --admin` at this address. On Linux it sends no token to the program of another user (root
    /// aside) that listens at an address of this machine.
    pub fn tcp(address: SocketAddr, token: impl Into<Secret>) -> Self {
        Self::new(ApiAddress::Tcp(address), Some(token.into()))
    }

    fn new(place: ApiAddress, token: Option<Secret>) -> Self {
        Self {
            place,
            token,
            timeout: DEFAULT_TIMEOUT,
            via: ActorKind::Api,
        }
    }

    /// How long a request may take: 15 seconds by default. A stream may last longer; only its opening is limited.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// By what means a person gives the commands; [`ActorKind::Api`] by default.
    #[must_use]
    pub fn via(mut self, via: ActorKind) -> Self {
        self.via = via;
        self
    }

    /// The socket, if this client uses one.
    pub fn socket(&self) -> Option<&Path> {
        match &self.place {
            ApiAddress::Unix(path) => Some(path),
            ApiAddress::Tcp(_) => None,
        }
    }

    /// The program as a whole.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn program(&self) -> Result<ProgramStatus, ControlError> {
        self.get(API_ROOT).await
    }

    /// All servers. The processes are looked at only if that is wanted.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn servers(&self, with_processes: bool) -> Result<ServerList, ControlError> {
        self.get(&format!("{API_ROOT}/servers?processes={with_processes}"))
            .await
    }

    /// One server.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn server(&self, name: &str) -> Result<ServerStatus, ControlError> {
        self.get(&server_path(name, "")).await
    }

    /// Pings the live connection of a server.
    ///
    /// Cancel safety: dropping it drops the answer.
    pub async fn ping(&self, name: &str, within: Duration) -> Result<PingReport, ControlError> {
        let path = format!("/ping?timeout_ms={}", within.as_millis());
        self.post(&server_path(name, &path)).await
    }

    /// What a server offers.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn catalog(&self, name: &str) -> Result<CatalogDocument, ControlError> {
        self.get(&server_path(name, "/catalog")).await
    }

    /// The last lines that a server wrote to stderr.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn stderr(&self, name: &str, lines: usize) -> Result<StderrPage, ControlError> {
        self.get(&server_path(name, &format!("/stderr?lines={lines}")))
            .await
    }

    /// The last lines that a server wrote to stderr, and what it writes from now on.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn follow_stderr(&self, name: &str, lines: usize) -> Result<StderrStream, ControlError> {
        let path = server_path(name, &format!("/stderr?follow=true&lines={lines}"));
        Ok(StderrStream(self.stream(&path).await?))
    }

    /// All sessions.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn sessions(&self) -> Result<SessionList, ControlError> {
        self.get(&format!("{API_ROOT}/sessions")).await
    }

    /// The last messages of a server's connections, with their payloads if those are wanted and recorded.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn recording(
        &self,
        name: &str,
        with_payloads: bool,
    ) -> Result<RecordingDocument, ControlError> {
        let rest = format!("/record?payloads={with_payloads}");
        self.get(&server_path(name, &rest)).await
    }

    /// Cancels a call that waits for an answer; the status of its server lists those.
    ///
    /// Cancel safety: dropped, the command may still be carried out.
    pub async fn cancel_call(&self, name: &str, call: &str) -> Result<ServerStatus, ControlError> {
        let rest = format!("/calls/{}/cancel", encoded(call));
        self.post(&server_path(name, &rest)).await
    }

    /// The last events, of one server or of all.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn last_events(&self, server: Option<&str>, limit: usize) -> Result<EventPage, ControlError> {
        let server = server_parameter(server);
        self.get(&format!("{API_ROOT}/events?tail={limit}&limit={limit}{server}"))
            .await
    }

    /// The events from so many before the end on, of one server or of all.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn events(&self, server: Option<&str>, tail: usize) -> Result<EventStream, ControlError> {
        let server = server_parameter(server);
        let path = format!("{API_ROOT}/events?tail={tail}{server}");
        Ok(EventStream::new(self.stream(&path).await?))
    }

    /// The events after the one with this id, as [`EventStream::last_id`] has it, of one server or of all. What is no longer kept
    /// is reported as missing.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn events_after(&self, server: Option<&str>, id: &str) -> Result<EventStream, ControlError> {
        let (server, id) = (server_parameter(server), encoded(id));
        let path = format!("{API_ROOT}/events?after={id}{server}");
        Ok(EventStream::new(self.stream(&path).await?))
    }

    /// Restarts a server.
    ///
    /// Cancel safety: dropped, the command may still be carried out.
    pub async fn restart(&self, name: &str) -> Result<ServerStatus, ControlError> {
        self.post(&server_path(name, "/restart")).await
    }

    /// Has a server listed again, and returns when the listing has ended. It waits longer than other requests.
    ///
    /// Cancel safety: dropped, the listing may still take place.
    pub async fn refresh(&self, name: &str) -> Result<RefreshReport, ControlError> {
        let patient = Self {
            timeout: self.timeout.saturating_add(REFRESH_TIMEOUT),
            ..self.clone()
        };
        patient.post(&server_path(name, "/refresh")).await
    }

    /// Wants a server connected.
    ///
    /// Cancel safety: dropped, the command may still be carried out.
    pub async fn enable(&self, name: &str) -> Result<ServerStatus, ControlError> {
        self.post(&server_path(name, "/enable")).await
    }

    /// Wants nothing of a server to run.
    ///
    /// Cancel safety: dropped, the command may still be carried out.
    pub async fn disable(&self, name: &str) -> Result<ServerStatus, ControlError> {
        self.post(&server_path(name, "/disable")).await
    }

    /// Begins a login to a server, or finds the one that waits for its person.
    ///
    /// Cancel safety: dropped, the login may still be begun.
    pub async fn begin_login(&self, name: &str) -> Result<LoginProgress, ControlError> {
        self.post(&server_path(name, "/login")).await
    }

    /// Begins a login for which the program registers itself again at the authorization server, which has forgotten it. A login that waits
    /// is given up for it.
    ///
    /// Cancel safety: dropped, the login may still be begun.
    pub async fn begin_login_as_new_client(&self, name: &str) -> Result<LoginProgress, ControlError> {
        let beginning = LoginBeginning { register_again: true };
        self.send_json(Method::POST, &server_path(name, "/login"), &beginning)
            .await
    }

    /// How far the last login to a server has come.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn login_progress(&self, name: &str) -> Result<LoginProgress, ControlError> {
        self.get(&server_path(name, "/login")).await
    }

    /// Gives the login that waits the address that the browser ended at.
    ///
    /// Cancel safety: dropped, the address may still be used.
    pub async fn paste_login_address(
        &self,
        name: &str,
        address: &str,
    ) -> Result<LoginProgress, ControlError> {
        let callback = LoginCallback {
            address: address.to_owned(),
        };
        let path = server_path(name, "/login/callback");
        self.send_json(Method::POST, &path, &callback).await
    }

    /// Has the program read its configuration again.
    ///
    /// Cancel safety: dropped, the command may still be carried out.
    pub async fn reload(&self) -> Result<ReloadReport, ControlError> {
        self.post(&format!("{API_ROOT}/reload")).await
    }

    /// A link that opens the dashboard, logged in. It works once.
    ///
    /// Cancel safety: dropped, a code may have been made, which expires.
    pub async fn page_link(&self) -> Result<PageLink, ControlError> {
        self.post(&format!("{API_ROOT}/ui")).await
    }

    /// Adds a server to the configuration.
    ///
    /// Cancel safety: dropped, the command may still be carried out.
    pub async fn add(&self, entry: &EntryDocument) -> Result<ReloadReport, ControlError> {
        let path = format!("{API_ROOT}/servers");
        self.send_json(Method::POST, &path, entry).await
    }

    /// Changes a server's entry in the configuration: sets each of these keys, and removes those that are `null`.
    ///
    /// Cancel safety: dropped, the command may still be carried out.
    pub async fn change(&self, entry: &EntryDocument) -> Result<ReloadReport, ControlError> {
        let path = server_path(&entry.name, "");
        self.send_json(Method::PATCH, &path, &entry.entry).await
    }

    /// Removes a server from the configuration.
    ///
    /// Cancel safety: dropped, the command may still be carried out.
    pub async fn remove(&self, name: &str) -> Result<ReloadReport, ControlError> {
        self.ask(Method::DELETE, &server_path(name, ""), None).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ControlError> {
        self.ask(Method::GET, path, None).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T, ControlError> {
        self.ask(Method::POST, path, None).await
    }

    async fn send_json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ControlError> {
        let body = serde_json::to_vec(body).map_err(|error| ControlError::BadAnswer(error.to_string()))?;
        self.ask(method, path, Some(body.into())).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<T, ControlError> {
        let asked = async {
            let request = self.request(method, path, "application/json", body)?;
            let response = self.exchange(request).await?;
            read_answer(response).await
        };
        timeout(self.timeout, asked)
            .await
            .unwrap_or(Err(ControlError::TimedOut(self.timeout)))
    }

    async fn stream(&self, path: &str) -> Result<SentEventReader, ControlError> {
        let opened = async {
            let request = self.request(Method::GET, path, "text/event-stream", None)?;
            let response = self.exchange(request).await?;
            match response.status() {
                StatusCode::OK => Ok(open_stream(response)),
                _refused => Err(refusal(response).await),
            }
        };
        timeout(self.timeout, opened)
            .await
            .unwrap_or(Err(ControlError::TimedOut(self.timeout)))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Option<Bytes>,
    ) -> Result<Request<Full<Bytes>>, ControlError> {
        let host = match &self.place {
            ApiAddress::Unix(_) => "localhost".to_owned(),
            ApiAddress::Tcp(address) => address.to_string(),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, host)
            .header(header::ACCEPT, accept)
            .header(
                header::USER_AGENT,
                concat!("mainstay/", env!("CARGO_PKG_VERSION")),
            )
            .header("mainstay-via", self.via.as_str());
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
            let mut value = value.map_err(|_| ControlError::BadToken)?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request.body(Full::new(body.unwrap_or_default()));
        request.map_err(|error| ControlError::BadAnswer(error.to_string()))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, ControlError> {
        match &self.place {
            ApiAddress::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                send(stream.map_err(ControlError::Unreachable)?, request).await
            }
            ApiAddress::Tcp(address) => {
                let stream = TcpStream::connect(address).await;
                let stream = stream.map_err(ControlError::Unreachable)?;
                let client = stream.local_addr().map_err(ControlError::Unreachable)?;
                match listener::foreign_server(client, *address) {
                    Some(user) => Err(ControlError::ForeignListener {
                        address: *address,
                        user,
                    }),
                    None => send(stream, request).await,
                }
            }
        }
    }
}

impl std::fmt::Debug for ControlClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlClient")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

async fn send<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, ControlError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with the answer: the body holds the connection, and the sender is dropped here.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the control API broke");
        }
    });
    Ok(sender.send_request(request).await?)
}

async fn read_answer<T: DeserializeOwned>(response: Response<Incoming>) -> Result<T, ControlError> {
    if response.status() != StatusCode::OK {
        return Err(refusal(response).await);
    }
    let body = read_all(response).await?;
    serde_json::from_slice(&body).map_err(|error| ControlError::BadAnswer(error.to_string()))
}

/// What an answer that is not a success says.
async fn refusal(response: Response<Incoming>) -> ControlError {
    let status = response.status();
    let problem = match read_all(response).await {
        Ok(body) => serde_json::from_slice::<ApiProblem>(&body).ok(),
        Err(error) => return error,
    };
    match problem {
        Some(problem) => ControlError::Problem(Box::new(problem)),
        None => ControlError::BadAnswer(format!("HTTP status {status}")),
    }
}

async fn read_all(response: Response<Incoming>) -> Result<Bytes, ControlError> {
    let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
    body.map(http_body_util::Collected::to_bytes)
        .map_err(|error| ControlError::BadAnswer(error.to_string()))
}

/// What a name in a path leaves as it is.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

fn server_path(name: &str, rest: &str) -> String {
    format!("{API_ROOT}/servers/{}{rest}", encoded(name))
}

fn server_parameter(server: Option<&str>) -> String {
    server.map_or_else(String::new, |server| format!("&server={}", encoded(server)))
}
