//! Each key of `oauth` in a configuration file reaches the login, in Mainstay's spelling and in those of other programs.

use std::path::Path;

use mainstay::config::{Configuration, OAuthSetting, Target};
use mainstay_login::{GrantSetting, LoginConfigError, LoginSettings, Logins};
use mainstay_oauth::ResourceSetting;

use crate::support::{private_directory, store};

/// A key for tests alone.
const KEY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../mainstay-oauth/src/signing/test-ed25519.pem"
);

/// The file with this server, read as the program reads it.
#[track_caller]
fn parse(entry: &str) -> Configuration {
    let text = format!(r#"{{ "mcpServers": {{ "one": {{ "url": "https://mcp.example/mcp", {entry} }} }} }}"#);
    let lookup = |name: &str| (name == "REPORTS_SECRET").then(|| "hunter2".to_owned());
    Configuration::parse(&text, Path::new("/etc/mainstay/mcp.json"), lookup).expect("JSON")
}

/// The settings of the login of this server.
#[track_caller]
fn settings(entry: &str) -> Result<LoginSettings, LoginConfigError> {
    let configuration = parse(entry);
    let errors: Vec<String> = configuration
        .errors()
        .map(|problem| format!("{problem:?}"))
        .collect();
    assert_eq!(errors, Vec::<String>::new(), "{entry}");
    let directory = private_directory();
    let logins = Logins::new(store(directory.path()));
    let provider = logins.provider(&configuration.servers[0])?;
    Ok(provider.settings().clone())
}

#[test]
fn every_key_reaches_the_login() {
    let none = settings(r#""enabled": true"#).unwrap();
    assert!(none.client.configured.is_none() && none.client.metadata_url.is_none());
    assert!(none.scopes.is_none() && none.issuer.is_none() && none.user.is_none());
    assert!(!none.allow_private && none.redirect_port.is_none());
    assert!(matches!(none.resource, ResourceSetting::Published));
    assert!(matches!(none.grant, GrantSetting::Person));

    let oauth = |keys: &str| settings(&format!(r#""oauth": {{ {keys} }}"#)).unwrap();
    let client =
        oauth(r#""client_id": "a", "client_secret_env": "REPORTS_SECRET", "issuer": "https://as.example""#);
    let configured = client.client.configured.unwrap();
    assert_eq!(configured.id, "a");
    assert_eq!(configured.secret.unwrap().expose(), "hunter2");
    assert_eq!(configured.issuer.as_deref(), Some("https://as.example"));
    assert_eq!(client.issuer.as_deref(), Some("https://as.example"));

    let document = oauth(r#""client_metadata_url": "https://a.example/client.json""#);
    assert_eq!(
        document.client.metadata_url.as_deref(),
        Some("https://a.example/client.json")
    );
    for scopes in [r#"["read", "write"]"#, r#""read write""#] {
        let scopes = oauth(&format!(r#""scopes": {scopes}"#)).scopes.unwrap();
        assert_eq!(scopes, ["read", "write"]);
    }
    assert!(matches!(
        oauth(r#""resource": false"#).resource,
        ResourceSetting::Omitted
    ));
    let other = oauth(r#""resource": "https://other.example""#).resource;
    assert!(matches!(other, ResourceSetting::Text(text) if text == "https://other.example"));
    assert_eq!(oauth(r#""redirect_port": 8123"#).redirect_port, Some(8123));
    assert!(oauth(r#""allow_private": true"#).allow_private);
    assert_eq!(oauth(r#""user": "ann""#).user.as_deref(), Some("ann"));
    let automatic = oauth(r#""grant": "client_credentials", "client_id": "a""#);
    assert!(matches!(automatic.grant, GrantSetting::ClientCredentials));
    let workload = oauth(r#""grant": "jwt_bearer", "assertion_file": "/run/token""#);
    assert!(
        matches!(workload.grant, GrantSetting::Workload { assertion_file } if assertion_file == Path::new("/run/token"))
    );
    let keyed = oauth(&format!(r#""client_id": "a", "private_key": "{KEY}""#));
    assert!(keyed.client.signing_key.is_some());
}

#[test]
fn the_spellings_of_other_programs_are_understood() {
    let claude_code = settings(r#""oauth": { "clientId": "a", "callbackPort": 8123 }"#).unwrap();
    assert_eq!(claude_code.client.configured.unwrap().id, "a");
    assert_eq!(claude_code.redirect_port, Some(8123));

    let codex = settings(r#""scopes": ["read"], "oauth_resource": "https://other.example""#).unwrap();
    assert_eq!(codex.scopes.unwrap(), ["read"]);
    assert!(matches!(codex.resource, ResourceSetting::Text(text) if text == "https://other.example"));

    let cursor = r#""auth": { "CLIENT_ID": "a", "CLIENT_SECRET": "${REPORTS_SECRET}", "scopes": ["read"] }"#;
    let cursor = settings(cursor).unwrap();
    let client = cursor.client.configured.unwrap();
    assert_eq!(
        (client.id.as_str(), client.secret.unwrap().expose()),
        ("a", "hunter2")
    );
    assert_eq!(cursor.scopes.unwrap(), ["read"]);

    let gemini =
        r#""oauth": { "enabled": true, "clientId": "a", "clientSecret": "hunter2", "scopes": ["read"] }"#;
    let gemini = settings(gemini).unwrap();
    assert_eq!(
        gemini.client.configured.unwrap().secret.unwrap().expose(),
        "hunter2"
    );

    let opencode = settings(r#""oauth": { "clientId": "a", "scope": "read write" }"#).unwrap();
    assert_eq!(opencode.scopes.unwrap(), ["read", "write"]);
}

#[test]
fn logins_that_are_off_or_not_needed_are_not_made() {
    for entry in [r#""oauth": false"#, r#""oauth": { "enabled": false }"#] {
        let configuration = parse(entry);
        let Target::Http(target) = configuration.servers[0].target() else {
            panic!("an address");
        };
        assert_eq!(*target.oauth(), OAuthSetting::Off);
        assert!(matches!(settings(entry), Err(LoginConfigError::Off { .. })));
    }
    for entry in [
        r#""headers": { "Authorization": "Bearer a" }"#,
        r#""headers": { "authorization": "Basic a" }, "oauth": { "client_id": "a" }"#,
        r#""bearer_token_env": "REPORTS_SECRET""#,
    ] {
        let refused = settings(entry).unwrap_err();
        assert!(
            matches!(refused, LoginConfigError::HasCredential { .. }),
            "{entry}: {refused}"
        );
    }
}

#[test]
fn mistakes_say_what_to_write() {
    for (entry, said) in [
        (
            r#""oauth": { "grant": "client_credential", "client_id": "a" }"#,
            "client_credentials",
        ),
        (r#""oauth": { "grant": "client_credentials" }"#, "client_id"),
        (r#""oauth": { "grant": "jwt_bearer" }"#, "assertion_file"),
        (r#""oauth": { "redirect_port": 70000 }"#, "65535"),
        (
            r#""oauth": { "client_secret_env": "NOT_SET", "client_id": "a" }"#,
            "NOT_SET",
        ),
        (r#""oauth": { "scopes": 7 }"#, "scopes"),
        (r#""oauth": 7"#, "oauth"),
    ] {
        let configuration = parse(entry);
        let problems: Vec<String> = configuration
            .errors()
            .chain(configuration.warnings())
            .chain(configuration.notes())
            .map(|problem| format!("{problem:?}"))
            .collect();
        assert!(
            problems.iter().any(|problem| problem.contains(said)),
            "{entry}: {problems:?}"
        );
    }
    let missing =
        settings(r#""oauth": { "client_id": "a", "private_key": "/nowhere/key.pem" }"#).unwrap_err();
    assert!(matches!(missing, LoginConfigError::KeyFile { .. }), "{missing}");
    let directory = private_directory();
    let path = directory.path().join("key.pem");
    std::fs::write(&path, "no key").unwrap();
    let bad = format!(
        r#""oauth": {{ "client_id": "a", "private_key": "{}" }}"#,
        path.display()
    );
    assert!(matches!(
        settings(&bad).unwrap_err(),
        LoginConfigError::Key { .. }
    ));
}
