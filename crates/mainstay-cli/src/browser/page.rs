//! A page on a port of 127.0.0.1 that asks for the code which the terminal shows, and then sends the browser on to an address, once.
//!
//! Every program of this machine can ask. The code has 50 random bits, so none can guess it while the page is open.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use sha2::{Digest as _, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::{draw_random, redirect_document};

/// The characters of a code: no two of them look alike. There are 32, so each is five bits.
const CHARACTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// How many of them.
const CODE_LENGTH: usize = 10;

/// Browsers open a few connections ahead; a flood waits.
const CONNECTIONS_LIMIT: usize = 16;

/// How long a connection may take for its one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// After an error of the listener: no descriptors, or a client that is gone already.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The page. It is closed when this is dropped.
pub(super) struct CodePage {
    address: String,
    code: String,
    accepting: AbortHandle,
}

/// What the page hands over.
struct Secret {
    code: [u8; 32],
    /// Taken by the first right code.
    target: Mutex<Option<String>>,
}

impl CodePage {
    pub(super) async fn open(target: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = format!("http://{}/", listener.local_addr()?);
        let code = draw_random::<CODE_LENGTH>()?.map(|byte| char::from(CHARACTERS[usize::from(byte % 32)]));
        let code = String::from_iter(code);
        let secret = Arc::new(Secret {
            code: digest(&code),
            target: Mutex::new(Some(target.to_owned())),
        });
        let accepting = tokio::spawn(accept(listener, secret)).abort_handle();
        let (start, end) = code.split_at(CODE_LENGTH / 2);
        Ok(Self {
            address,
            code: format!("{start}-{end}"),
            accepting,
        })
    }

    /// Where the page is. It holds no secret.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn code(&self) -> &str {
        &self.code
    }
}

impl Drop for CodePage {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, secret: Arc<Secret>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_LIMIT));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let secret = secret.clone();
        tokio::spawn(async move {
            let _place = place;
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, serve(stream, &secret)).await;
        });
    }
}

async fn serve(stream: TcpStream, secret: &Secret) {
    let handler =
        service_fn(async |request: Request<Incoming>| Ok::<_, Infallible>(answer(&request, secret)));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIMEOUT)
        // hyper's panics at a time that has no HTTP date, such as one after the year 9999.
        .auto_date_header(false)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), handler)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a request to the page with the code broke");
    }
}

fn answer<B>(request: &Request<B>, secret: &Secret) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return document(StatusCode::METHOD_NOT_ALLOWED, form("This page is only read."));
    }
    match request.uri().path() {
        "/" => document(StatusCode::OK, form("")),
        "/open" => {
            let query = request.uri().query().unwrap_or_default();
            let given = query.strip_prefix("code=").unwrap_or_default();
            // Digests, so that the time of the comparison tells nothing of the code.
            if digest(given) != secret.code {
                return document(
                    StatusCode::FORBIDDEN,
                    form("That is not the code in the terminal."),
                );
            }
            let mut target = secret.target.lock().unwrap_or_else(PoisonError::into_inner);
            match target.take() {
                Some(target) => document(StatusCode::OK, redirect_document(&target)),
                None => document(
                    StatusCode::GONE,
                    form("The code was used already. Run the command again."),
                ),
            }
        }
        _other => document(StatusCode::NOT_FOUND, form("There is nothing here.")),
    }
}

/// The digest of a code as a person writes it: in any case, with or without the hyphen.
fn digest(code: &str) -> [u8; 32] {
    let typed = code.chars().filter(char::is_ascii_alphanumeric);
    let typed: String = typed.map(|character| character.to_ascii_uppercase()).collect();
    Sha256::digest(typed.as_bytes()).into()
}

fn form(said: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Mainstay</title><h1>Mainstay</h1><p role=\"status\">{said}</p>\
         <form action=\"/open\"><label>The code that the terminal shows: \
         <input name=\"code\" autofocus autocomplete=\"off\" size=\"14\"></label> <button>Open</button></form>\n"
    )
}

/// A page without scripts and images.
fn document(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
        ),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn get(page: &CodePage, path: &str) -> String {
        let authority = page.address().trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(authority).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn the_address_is_given_for_the_code_alone_and_once() {
        let page = CodePage::open("https://login.example/?state=secret")
            .await
            .unwrap();
        assert!(!page.address().contains(page.code()));
        for path in ["/", "/open", "/open?code=", "/open?code=00000-00000", "/secret"] {
            let answer = get(&page, path).await;
            assert!(
                answer.contains("<form") && !answer.contains("state=secret"),
                "{path}: {answer}"
            );
        }
        let typed = format!("/open?code={}", page.code().to_lowercase().replace('-', "+"));
        let answer = get(&page, &typed).await;
        assert!(answer.contains("https://login.example/?state=secret"), "{answer}");
        assert!(!answer.to_lowercase().contains("\r\ndate:"), "{answer}");
        let again = get(&page, &typed).await;
        assert!(
            again.starts_with("HTTP/1.1 410") && !again.contains("state=secret"),
            "{again}"
        );
    }
}
