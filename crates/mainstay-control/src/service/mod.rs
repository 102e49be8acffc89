//! The HTTP service under `/api/v1`.
//!
//! It is served on a unix socket ([`ControlService::serve_connection`]) or at the HTTP door of a gateway, which checks host,
//! origin and token first. Every request ends with an answer or an [`ApiProblem`]; streams end with their readers.

mod answer;
mod call;
mod events;
mod request;
mod route;
mod stderr;
mod stream;
mod watch;

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use mainstay_gateway::{HttpMount, MountBody};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use crate::api::{Actor, ApiProblem, EntryDocument, LoginCallback, PageLink, ProblemKind};
use crate::control::{ConfigCommand, Control, Hub};
use crate::controlled::Controlling;
use crate::metrics::{self, METRICS_PATH, MetricsAccess};
use crate::openapi;
use crate::page::{self, PAGE_CODE_LIFETIME, PAGE_ROOT, PageLogins};
use crate::recorded;
use crate::status;
use answer::problem_answer;
pub(crate) use answer::{bytes_answer, json_answer};
pub(crate) use request::read_json;
use request::{Admission, Query, actor, read_body, read_json_if_any};
use route::ApiRoute;
pub(crate) use route::shown;
use stream::{PieceBody, Pieces, StreamEnd};
use watch::FiguresFeed;

/// Where the API begins.
pub const API_ROOT: &str = "/api/v1";

/// How long a client may take to send the head of a request, and how long a connection stays open between two.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Streams that may be open at the same time. Each costs a connection and a position in the journal.
const WATCHERS_LIMIT: usize = 256;

/// Serves the control API. Clones are handles of the same service.
#[derive(Clone)]
pub struct ControlService(Arc<ServiceParts>);

pub(crate) struct ServiceParts {
    pub(crate) hub: Arc<Hub>,
    pub(crate) watchers: Arc<Semaphore>,
    pub(crate) figures: FiguresFeed,
    metrics: MetricsAccess,
    pages: Option<PageLogins>,
    open_page: Option<OpenPage>,
}

/// Opens the place where a browser reaches the dashboard, if it is not open yet; its address, such as `http://127.0.0.1:40123`.
pub type OpenPage = Box<dyn Fn() -> Controlling<'static, String> + Send + Sync>;

impl ControlService {
    /// Serves this hub.
    pub fn new(control: &Control) -> Self {
        Self::build(control, MetricsAccess::none(), None, None)
    }

    /// Serves this hub, and lets these read the metrics.
    pub fn with_metrics(control: &Control, metrics: MetricsAccess) -> Self {
        Self::build(control, metrics, None, None)
    }

    /// Serves this hub, lets these read the metrics, and serves the dashboard, for pages that log in with these. `open` is asked where the page is; without it, the page
    /// is where the API is.
    pub fn with_pages(
        control: &Control,
        metrics: MetricsAccess,
        pages: PageLogins,
        open: Option<OpenPage>,
    ) -> Self {
        Self::build(control, metrics, Some(pages), open)
    }

    fn build(
        control: &Control,
        metrics: MetricsAccess,
        pages: Option<PageLogins>,
        open_page: Option<OpenPage>,
    ) -> Self {
        Self(Arc::new(ServiceParts {
            hub: control.0.clone(),
            watchers: Arc::new(Semaphore::new(WATCHERS_LIMIT)),
            figures: FiguresFeed::default(),
            metrics,
            pages,
            open_page,
        }))
    }

    /// Serves one client until it closes its connection. The caller has checked that the client is a program of this user.
    ///
    /// Cancel safety: dropping it ends the connection. A command that was taken is carried out.
    pub async fn serve_connection<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let user = Admission::User(rustix::process::geteuid().as_raw());
        let handler = service_fn(|mut request: Request<Incoming>| {
            let service = self.clone();
            request.extensions_mut().insert(user);
            async move { Ok::<_, Infallible>(service.respond(request).await) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            // hyper's panics at a time that has no HTTP date, such as one after the year 9999.
            .auto_date_header(false)
            .serve_connection(TokioIo::new(stream), handler)
            .await;
        if let Err(error) = served {
            tracing::debug!(%error, "a connection to the control API broke");
        }
    }

    /// Records a command that a person gave in another way than by the API, such as the end of the program.
    pub fn record_command(&self, command: &str, by: Actor) {
        self.0.hub.record_command(None, command, by, &Ok(()));
    }

    /// Answers one request.
    ///
    /// Cancel safety: a command that was taken is carried out.
    pub async fn respond<B>(&self, request: Request<B>) -> Response<MountBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.answer(request)
            .await
            .unwrap_or_else(|problem| problem_answer(&problem))
    }

    async fn answer<B>(&self, request: Request<B>) -> Result<Response<MountBody>, ApiProblem>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        if is_page(head.uri.path()) {
            return page::answer(&head, body, self.0.pages.as_ref(), &self.0.hub.journal).await;
        }
        if head.uri.path() == METRICS_PATH {
            return metrics::answer(&self.0.hub, &head.method, &head.headers).await;
        }
        let route = ApiRoute::of(&head.method, head.uri.path())?;
        let query = Query::of(&head.uri);
        let hub = &self.0.hub;
        match route {
            ApiRoute::Program => Ok(json_answer(&hub.program())),
            ApiRoute::OpenApi => Ok(bytes_answer(StatusCode::OK, "application/json", openapi::json())),
            ApiRoute::Servers => {
                let with_processes = query.flag("processes")?.unwrap_or(true);
                Ok(json_answer(&hub.server_list(with_processes).await))
            }
            ApiRoute::Server(name) => {
                let named = hub.server(&name)?;
                Ok(json_answer(&hub.server_status(&named).await))
            }
            ApiRoute::Catalog(name) => Ok(json_answer(&status::catalog(&hub.server(&name)?))),
            ApiRoute::Stderr(name) => self.stderr(&hub.server(&name)?, &head.headers, &query),
            ApiRoute::Events => self.events(&head.headers, &query),
            ApiRoute::Watch => self.watch(&head.headers).await,
            ApiRoute::Call(name) => Ok(json_answer(&self.call(&name, &head, body).await?)),
            ApiRoute::Ping(name) => {
                read_body(&head.headers, body).await?;
                Ok(json_answer(&self.ping(&name, &query).await?))
            }
            ApiRoute::Refresh(name) => {
                read_body(&head.headers, body).await?;
                let (own, by) = (hub.clone(), actor(&head));
                let listed = carried_out(async move { own.refresh(&name, by).await }).await?;
                Ok(json_answer(&listed))
            }
            ApiRoute::Record(name) => {
                let with_payloads = query.flag("payloads")?.unwrap_or(false);
                let named = hub.server(&name)?;
                Ok(json_answer(&recorded::recording(&named, with_payloads)))
            }
            ApiRoute::CancelCall(name, call) => {
                read_body(&head.headers, body).await?;
                hub.cancel_call(&name, &call, actor(&head))?;
                Ok(json_answer(&hub.server_status(&hub.server(&name)?).await))
            }
            ApiRoute::BeginLogin(name) => {
                let beginning = read_json_if_any(&head.headers, body).await?;
                let (own, by) = (hub.clone(), actor(&head));
                let begun = carried_out(async move { own.begin_login(&name, &beginning, by).await }).await?;
                Ok(json_answer(&begun))
            }
            ApiRoute::LoginProgress(name) => {
                let named = hub.server(&name)?;
                Ok(json_answer(&hub.logins.progress(&named.name)))
            }
            ApiRoute::LoginCallback(name) => {
                let LoginCallback { address } = read_json(&head.headers, body).await?;
                let (own, by) = (hub.clone(), actor(&head));
                let taken = carried_out(async move { own.paste_login(&name, address, by).await }).await?;
                Ok(json_answer(&taken))
            }
            ApiRoute::Page => {
                read_body(&head.headers, body).await?;
                Ok(json_answer(&self.page_link().await?))
            }
            ApiRoute::Sessions => Ok(json_answer(&status::session_list(hub))),
            ApiRoute::Command(name, command) => {
                read_body(&head.headers, body).await?;
                let by = actor(&head);
                let (own, server) = (hub.clone(), name.clone());
                carried_out(async move { own.command(command, &server, by).await }).await?;
                let named = hub.server(&name)?;
                Ok(json_answer(&hub.server_status(&named).await))
            }
            ApiRoute::Reload => {
                read_body(&head.headers, body).await?;
                self.configure(ConfigCommand::Reload, &head).await
            }
            ApiRoute::Add => {
                let entry: EntryDocument = read_json(&head.headers, body).await?;
                self.configure(ConfigCommand::Add(entry), &head).await
            }
            ApiRoute::Change(name) => {
                let entry = read_json(&head.headers, body).await?;
                let entry = EntryDocument { name, entry };
                self.configure(ConfigCommand::Change(entry), &head).await
            }
            ApiRoute::Remove(name) => {
                read_body(&head.headers, body).await?;
                self.configure(ConfigCommand::Remove(name), &head).await
            }
        }
    }

    /// What let a request over TCP in; the door has checked its token.
    fn admission(&self, headers: &HeaderMap) -> Admission {
        let shown = headers.get(AUTHORIZATION).and_then(|shown| shown.to_str().ok());
        let token = shown
            .and_then(|shown| shown.split_once(' '))
            .map(|(_scheme, token)| token.trim());
        let is_page = |pages: &PageLogins| token.is_some_and(|token| pages.admits(token));
        match self.0.pages.as_ref().is_some_and(is_page) {
            true => Admission::PageLogin,
            false => Admission::ControlToken,
        }
    }

    /// A link that opens the dashboard, logged in.
    async fn page_link(&self) -> Result<PageLink, ApiProblem> {
        let pages = self.0.pages.as_ref();
        let pages = pages.ok_or_else(|| ApiProblem::not_supported("this program serves no dashboard"))?;
        let issued = pages.issue_link();
        let (link, code) = issued
            .ok_or_else(|| ApiProblem::new(ProblemKind::Internal, "the system has no random numbers"))?;
        let address = match &self.0.open_page {
            Some(open) => Some(open().await?),
            None => None,
        };
        Ok(PageLink {
            address,
            path: format!("{PAGE_ROOT}/#/login/{code}"),
            link,
            lifetime_ms: crate::api::ms(PAGE_CODE_LIFETIME),
        })
    }

    /// A body of pieces. It ends when its reader is gone, and when the page that reads it is logged out.
    fn stream<P: Pieces>(&self, pieces: P, headers: &HeaderMap) -> Result<PieceBody<P>, ApiProblem> {
        let pages = self.0.pages.as_ref();
        let end = bearer(headers).and_then(|token| pages?.end_of(token));
        PieceBody::open(
            pieces,
            &self.0.watchers,
            end.map(|end| Box::pin(end) as StreamEnd),
        )
    }

    async fn configure(
        &self,
        command: ConfigCommand,
        head: &Parts,
    ) -> Result<Response<MountBody>, ApiProblem> {
        let (hub, by) = (self.0.hub.clone(), actor(head));
        let report = carried_out(async move { hub.configure(command, by).await }).await?;
        Ok(json_answer(&report))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let shown = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = shown.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn is_page(path: &str) -> bool {
    let below = path.strip_prefix(PAGE_ROOT);
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// Carries out a command to its end, even if the client that sent it is gone.
async fn carried_out<T: Send + 'static>(
    command: impl Future<Output = Result<T, ApiProblem>> + Send + 'static,
) -> Result<T, ApiProblem> {
    let failed = |_| ApiProblem::new(ProblemKind::Internal, "the command failed inside the program");
    tokio::spawn(command).await.map_err(failed)?
}

impl HttpMount for ControlService {
    fn handle(
        &self,
        mut request: Request<Incoming>,
    ) -> Pin<Box<dyn Future<Output = Response<MountBody>> + Send + '_>> {
        let admission = self.admission(request.headers());
        request.extensions_mut().insert(admission);
        Box::pin(self.respond(request))
    }

    /// The files of the dashboard hold no data, and a page has no token before it has logged in.
    fn is_public(&self, path: &str) -> bool {
        match path {
            METRICS_PATH => self.0.metrics.is_public(),
            path => self.0.pages.is_some() && is_page(path),
        }
    }

    fn admits(&self, path: &str, token: &str) -> bool {
        let by_page = self.0.pages.as_ref().is_some_and(|pages| pages.admits(token));
        by_page || (path == METRICS_PATH && self.0.metrics.admits(token))
    }
}
