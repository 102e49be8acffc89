//! Servers on old releases of the Python and TypeScript SDKs, on stdio. Some do not survive the first question of the modern era; all
//! come up at their first start without any setting.

use mainstay::{CallOptions, Era, Fleet, ServerConfig};
use mainstay_partner::{Partner, partners};
use serde_json::json;

use crate::partners::LONG;

/// Every installed release, and the version that it speaks.
const RELEASES: [(&str, &str); 7] = [
    ("python-sdk-1.0.0", "2024-11-05"),
    ("python-sdk-1.6.0", "2024-11-05"),
    ("python-sdk-1.8.1", "2024-11-05"),
    ("python-sdk-1.9.4", "2025-03-26"),
    ("typescript-sdk-0.5.0", "2024-11-05"),
    ("typescript-sdk-1.10.0", "2024-11-05"),
    ("typescript-sdk-1.20.0", "2025-06-18"),
];

#[tokio::test]
async fn servers_on_old_releases_of_the_sdks_come_up_at_once_without_any_setting() {
    let Some(partners) = partners() else { return };
    let installed: Vec<_> = partners.old_sdks.keys().map(String::as_str).collect();
    assert_eq!(installed, RELEASES.map(|(name, ..)| name));
    let servers = partners.old_sdks.iter();
    let servers = servers.map(|(name, partner)| configured(name, partner));
    let fleet = Fleet::builder().start(servers);
    for (name, version) in RELEASES {
        works(&fleet, name, version).await;
    }
    fleet.close(LONG).await;
}

async fn works(fleet: &Fleet, name: &str, version: &str) {
    let server = fleet.server(name).unwrap();
    let status = server.wait_connected(LONG).await;
    let status = status.unwrap_or_else(|error| panic!("{name}: {error:?} {:?}", server.status()));
    let (era, spoken) = status.protocol.unwrap();
    assert_eq!(
        (era, &*spoken, status.starts),
        (Era::Legacy, version, 1),
        "{name}"
    );
    let options = CallOptions::default().timeout(LONG);
    let reply = server
        .call("echo", &json!({ "text": "still here" }))
        .options(options)
        .await;
    assert!(reply.unwrap().result.as_str().contains("still here"), "{name}");
}

fn configured(name: &str, partner: &Partner) -> ServerConfig {
    let command = partner.command.display().to_string();
    let config = ServerConfig::stdio(name, command).args(partner.args.iter().map(String::as_str));
    let env = partner.env.iter();
    let config = env.fold(config, |config, (key, value)| config.env(key, value.as_str()));
    config.build().unwrap()
}
