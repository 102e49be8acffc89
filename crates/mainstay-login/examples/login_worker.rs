//! One of several processes that share a login and call a server side by side. A test starts it.
//!
//!     login_worker URL STORE CALLERS SECONDS
//!
//! Prints a line of JSON at the end: how many calls succeeded, how many failed, the first errors, how long the slowest call
//! took, how often the server asked for a login, and when each token was last given to a request.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use mainstay::server::Reason;
use mainstay::transport::http::{Authorizing, Changing, CredentialRefusal, Credentials, Refusing};
use mainstay::{CallOptions, Fleet, ServerConfig};
use mainstay_login::{FileStore, LoginProvider, LoginSettings, StoreProtection, finish_renewals};
use serde_json::json;
use tokio::task::JoinSet;

const CALL_WITHIN: Duration = Duration::from_secs(20);
/// With eight processes of 64 callers, about 2,500 calls in a second: what one authorization server of Node can check.
const CALL_PAUSE: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, store, callers, seconds] = arguments.as_slice() else {
        return Err("URL STORE CALLERS SECONDS".into());
    };
    let store = FileStore::open(Path::new(store), StoreProtection::Plain)?;
    let provider = LoginProvider::new(LoginSettings::new(url.parse()?), Arc::new(store));
    let noted = Arc::new(NotedCredentials {
        provider,
        given: Mutex::default(),
    });
    let config = ServerConfig::http("protected", url.as_str()).credentials(noted.clone());
    let fleet = Fleet::builder().start([config.build()?]);
    let server = fleet.server("protected").ok_or("just configured")?;

    let until = Instant::now() + Duration::from_secs(seconds.parse()?);
    let mut status = server.watch();
    let asked = tokio::spawn(async move {
        let (mut asked, mut asks) = (0_u32, false);
        while status.changed().await.is_ok() {
            let now = status.borrow_and_update().reason == Some(Reason::AuthRequired);
            asked += u32::from(now && !asks);
            asks = now;
        }
        asked
    });
    let mut tasks = JoinSet::new();
    for _ in 0..callers.parse::<u32>()? {
        let server = server.clone();
        tasks.spawn(async move {
            let (mut good, mut slowest, mut errors) = (0_u32, Duration::ZERO, Vec::new());
            while Instant::now() < until {
                let began = Instant::now();
                let options = CallOptions::default().timeout(CALL_WITHIN);
                match server.call("echo", &json!({})).options(options).await {
                    Ok(_) => good += 1,
                    Err(error) => errors.push(error.to_string()),
                }
                slowest = slowest.max(began.elapsed());
                tokio::time::sleep(CALL_PAUSE).await;
            }
            (good, slowest, errors)
        });
    }
    let (mut good, mut slowest, mut errors) = (0, Duration::ZERO, Vec::new());
    while let Some(done) = tasks.join_next().await {
        let (some, longest, failed) = done?;
        good += some;
        slowest = slowest.max(longest);
        errors.extend(failed);
    }
    fleet.close(Duration::from_secs(5)).await;
    finish_renewals(Duration::from_secs(5)).await;
    drop((server, fleet));
    let asked = tokio::time::timeout(Duration::from_secs(5), asked).await??;
    let failed = errors.len();
    errors.truncate(3);
    let slowest_ms = u64::try_from(slowest.as_millis())?;
    let given = noted.given();
    println!(
        "{}",
        json!({ "good": good, "failed": failed, "errors": errors, "slowest_ms": slowest_ms, "asked": asked, "given": given })
    );
    Ok(())
}

/// A provider that notes when it last gave out each token.
struct NotedCredentials {
    provider: LoginProvider,
    given: Mutex<BTreeMap<Vec<u8>, SystemTime>>,
}

impl NotedCredentials {
    fn note(&self, value: Option<&HeaderValue>) {
        if let (Some(value), Ok(mut given)) = (value, self.given.lock()) {
            given.insert(value.as_bytes().to_vec(), SystemTime::now());
        }
    }

    /// The tokens, and when they were last given out, in milliseconds since 1970.
    fn given(&self) -> BTreeMap<String, u64> {
        let Ok(given) = self.given.lock() else {
            return BTreeMap::new();
        };
        let shown = |(value, at): (&Vec<u8>, &SystemTime)| {
            let text = String::from_utf8_lossy(value);
            let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
            let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
            (text.trim_start_matches("Bearer ").to_owned(), millis)
        };
        given.iter().map(shown).collect()
    }
}

impl Credentials for NotedCredentials {
    fn authorization(&self) -> Authorizing<'_> {
        Box::pin(async {
            let value = self.provider.authorization().await;
            if let Ok(value) = &value {
                self.note(value.as_ref());
            }
            value
        })
    }

    fn refused<'a>(&'a self, refusal: &'a CredentialRefusal) -> Refusing<'a> {
        self.provider.refused(refusal)
    }

    fn owner(&self) -> Option<String> {
        self.provider.owner()
    }

    fn changed(&self) -> Changing<'_> {
        self.provider.changed()
    }
}
