//! Receives the redirect of the browser on a port of 127.0.0.1.
//!
//! Only a callback that the login accepts ends the wait. Any other request gets 400 or 404, and the listener goes on: every
//! program and web page of this machine can send requests here.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use url::Url;

/// The path of the redirect URI.
const PATH: &str = "/callback";

/// Browsers open a few connections ahead; a flood waits.
const CONNECTIONS_LIMIT: usize = 16;

/// How long a request may take to arrive, and how long a connection may stay.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// A callback, and where to say what became of it.
pub(crate) struct Callback {
    /// The query of the request.
    pub(crate) query: String,
    pub(crate) verdict: oneshot::Sender<Verdict>,
}

/// How a login ended, for the browser: why, if it failed.
pub(crate) type LoginResult = Result<(), String>;

/// What the person sees in the browser.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The callback was accepted. The browser waits for the result of the login.
    Accepted(oneshot::Receiver<LoginResult>),
    /// The callback was refused, for this reason.
    Refused(String),
}

/// How long a browser waits for the result of a login: shorter than its connection may stay.
const RESULT_TIMEOUT: Duration = Duration::from_secs(20);

/// How long the end of a login waits until the browser has its page.
const PAGE_GRACE: Duration = Duration::from_secs(1);

/// A bound port. It accepts connections until it is dropped.
pub(crate) struct CallbackListener {
    redirect_uri: Url,
    accepting: AbortHandle,
    places: Arc<Semaphore>,
}

impl CallbackListener {
    /// Binds the port, or any other one if it is taken.
    pub(crate) async fn bind(port: Option<u16>, callbacks: mpsc::Sender<Callback>) -> io::Result<Self> {
        let listener = match port {
            Some(port) => match TcpListener::bind(("127.0.0.1", port)).await {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => any_port().await?,
                bound => bound?,
            },
            None => any_port().await?,
        };
        let port = listener.local_addr()?.port();
        let redirect_uri = format!("http://127.0.0.1:{port}{PATH}");
        let redirect_uri = Url::parse(&redirect_uri).map_err(io::Error::other)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS_LIMIT));
        let accepting = tokio::spawn(accept(listener, callbacks, places.clone())).abort_handle();
        Ok(Self {
            redirect_uri,
            accepting,
            places,
        })
    }

    pub(crate) fn redirect_uri(&self) -> &Url {
        &self.redirect_uri
    }

    /// Accepts nothing more. The browsers that are connected still get their pages.
    pub(crate) fn stop(&self) {
        self.accepting.abort();
    }

    /// Accepts nothing more, and waits until the pages are sent.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub(crate) async fn finish(&self) {
        self.stop();
        let all = u32::try_from(CONNECTIONS_LIMIT).unwrap_or(u32::MAX);
        let _ = timeout(PAGE_GRACE, self.places.acquire_many(all)).await;
    }
}

impl Drop for CallbackListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn any_port() -> io::Result<TcpListener> {
    TcpListener::bind(("127.0.0.1", 0)).await
}

async fn accept(listener: TcpListener, callbacks: mpsc::Sender<Callback>, places: Arc<Semaphore>) {
    loop {
        let accepted = listener.accept().await;
        let Ok((stream, _)) = accepted else {
            // No descriptors, or a client that is gone already.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let callbacks = callbacks.clone();
        tokio::spawn(async move {
            let _place = place;
            let _ = timeout(CONNECTION_TIMEOUT, serve(stream, callbacks)).await;
        });
    }
}

async fn serve(stream: TcpStream, callbacks: mpsc::Sender<Callback>) {
    let answer = service_fn(|request: Request<Incoming>| {
        let callbacks = callbacks.clone();
        async move { Ok::<_, Infallible>(answer(&request, &callbacks).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        // hyper's panics at a time that has no HTTP date, such as one after the year 9999.
        .auto_date_header(false)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a request to the listener of a login broke");
    }
}

async fn answer(request: &Request<Incoming>, callbacks: &mpsc::Sender<Callback>) -> Response<Full<Bytes>> {
    if request.method() != Method::GET || request.uri().path() != PATH {
        return page(StatusCode::NOT_FOUND, "Not found", "There is nothing here.");
    }
    let (verdict, answer) = oneshot::channel();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let sent = callbacks.send(Callback { query, verdict }).await;
    let verdict = match sent {
        Ok(()) => answer.await.ok(),
        Err(_closed) => None,
    };
    match verdict {
        Some(Verdict::Accepted(result)) => result_page(result).await,
        Some(Verdict::Refused(reason)) => page(StatusCode::BAD_REQUEST, "Not logged in", &reason),
        None => page(
            StatusCode::BAD_REQUEST,
            "Not logged in",
            "No login waits for this answer.",
        ),
    }
}

/// The page that says how the login ended.
async fn result_page(result: oneshot::Receiver<LoginResult>) -> Response<Full<Bytes>> {
    match timeout(RESULT_TIMEOUT, result).await {
        Ok(Ok(Ok(()))) => page(
            StatusCode::OK,
            "Logged in",
            "Mainstay has logged in. You can close this window.",
        ),
        Ok(Ok(Err(reason))) => page(StatusCode::BAD_REQUEST, "Not logged in", &reason),
        Ok(Err(_given_up)) => page(
            StatusCode::BAD_REQUEST,
            "Not logged in",
            "The login was given up.",
        ),
        Err(_elapsed) => page(
            StatusCode::ACCEPTED,
            "Not logged in yet",
            "The authorization server has not answered yet. You can close this window: Mainstay says how the login ends where it was begun.",
        ),
    }
}

/// A page without scripts, images or links. Its text may come from a server and is escaped.
fn page(status: StatusCode, title: &str, text: &str) -> Response<Full<Bytes>> {
    let body = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>{title}</title><h1>{title}</h1><p>{}</p>\n",
        escaped(text)
    );
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'"),
    );
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            plain => escaped.push(plain),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn text(page: Response<Full<Bytes>>) -> (StatusCode, String) {
        let status = page.status();
        let body = page.into_body().collect().await.expect("a body").to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn no_answer_has_a_date_since_hyper_s_clock_panics_after_the_year_9999() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (callbacks, _none_comes) = mpsc::channel(1);
        let listener = CallbackListener::bind(None, callbacks).await.expect("a port");
        let port = listener.redirect_uri().port().expect("it has one");
        let mut browser = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
        let request = b"GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\n";
        browser.write_all(request).await.expect("written");
        let mut answer = String::new();
        browser.read_to_string(&mut answer).await.expect("an answer");
        let (head, _page) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 404"), "{head}");
        assert!(!head.to_lowercase().contains("\r\ndate:"), "{head}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_page_waits_for_the_result_of_the_login_and_tells_it() {
        let (result, told) = oneshot::channel();
        let waiting = tokio::spawn(result_page(told));
        tokio::time::sleep(RESULT_TIMEOUT / 2).await;
        assert!(!waiting.is_finished(), "nothing is told before it is known");
        result.send(Ok(())).expect("the page waits");
        let (status, page) = text(waiting.await.expect("a page")).await;
        assert_eq!(status, StatusCode::OK);
        assert!(page.contains("<h1>Logged in</h1>"), "{page}");

        let (result, told) = oneshot::channel();
        result
            .send(Err("refused: <script>&\"".to_owned()))
            .expect("the page waits");
        let (status, page) = text(result_page(told).await).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(page.contains("<h1>Not logged in</h1>"), "{page}");
        assert!(page.contains("refused: &lt;script&gt;&amp;&quot;"), "{page}");

        let (given_up, told) = oneshot::channel();
        drop(given_up);
        assert!(text(result_page(told).await).await.1.contains("Not logged in"));

        // A server that never answers does not hold the browser for ever.
        let (_unanswered, told) = oneshot::channel();
        let (status, page) = text(result_page(told).await).await;
        assert_eq!(status, StatusCode::ACCEPTED);
        assert!(page.contains("Not logged in yet"), "{page}");
    }
}
