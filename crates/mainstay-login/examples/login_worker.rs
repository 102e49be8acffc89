//! One of several processes that share a login and call a server side by side. A test starts it.
//!
//!     login_worker URL STORE CALLERS SECONDS
//!
//! Prints a line of JSON at the end: how many calls succeeded, how many failed, the first errors, how long the slowest call
//! took, and how often the server asked for a login.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainstay::server::Reason;
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
    let config = ServerConfig::http("protected", url.as_str()).credentials(Arc::new(provider));
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
    println!(
        "{}",
        json!({ "good": good, "failed": failed, "errors": errors, "slowest_ms": slowest_ms, "asked": asked })
    );
    Ok(())
}
