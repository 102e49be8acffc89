//! Requirements on finding the authorization server.

use std::time::Duration;

use mainstay_oauth::{
    AddressError, DiscoveryError, DocumentError, HttpResponse, LoginError, ResourceSetting, Revision,
};
use serde_json::json;

use crate::support::{
    ISSUER, ISSUER_OAUTH, ISSUER_OPENID, RESOURCE_PATH, RESOURCE_ROOT, SERVER, Script, TOKEN, but, challenge,
    options, options_at, resource_metadata, server_metadata, url,
};

const CUSTOM: &str = "https://mcp.example.com/custom/metadata.json";

fn failure(script: &mut Script, options: mainstay_oauth::LoginOptions) -> DiscoveryError {
    match script.run(options).unwrap_err() {
        LoginError::Discovery(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn the_metadata_named_in_the_challenge_is_asked_first_and_alone() {
    let mut script = Script::usual().json(CUSTOM, &resource_metadata());
    let mut options = options();
    options.challenge = challenge(&format!("Bearer resource_metadata=\"{CUSTOM}\""));
    script.run(options).unwrap();
    assert_eq!(script.addresses()[..2], [CUSTOM, ISSUER_OAUTH]);
}

#[test]
fn without_a_named_address_the_path_form_is_asked_and_then_the_root() {
    let mut script = Script::usual();
    script.run(options()).unwrap();
    assert_eq!(script.addresses()[..2], [RESOURCE_PATH, ISSUER_OAUTH]);
    let root = but(
        resource_metadata(),
        json!({"resource": "https://mcp.example.com"}),
    );
    let mut script = Script::usual()
        .answer(RESOURCE_PATH, 404, &json!({}))
        .json(RESOURCE_ROOT, &root);
    script.run(options()).unwrap();
    assert_eq!(
        script.addresses()[..3],
        [RESOURCE_PATH, RESOURCE_ROOT, ISSUER_OAUTH]
    );
}

#[test]
fn named_metadata_that_is_not_there_is_looked_for_at_the_well_known_addresses_but_never_replaced_by_defaults()
{
    let mut named = options();
    named.challenge = challenge(&format!("Bearer resource_metadata=\"{CUSTOM}\""));
    let mut script = Script::usual();
    script.run(named.clone()).unwrap();
    assert_eq!(script.addresses()[..3], [CUSTOM, RESOURCE_PATH, ISSUER_OAUTH]);
    let mut script = Script::empty();
    assert_eq!(
        failure(&mut script, named),
        DiscoveryError::ResourceMetadataMissing
    );
    assert_eq!(script.addresses(), [CUSTOM, RESOURCE_PATH, RESOURCE_ROOT]);
}

#[test]
fn an_address_that_is_named_and_well_known_is_asked_once() {
    let mut named = options();
    named.challenge = challenge(&format!("Bearer resource_metadata=\"{RESOURCE_PATH}\""));
    let mut script = Script::empty();
    assert_eq!(
        failure(&mut script, named),
        DiscoveryError::ResourceMetadataMissing
    );
    assert_eq!(script.addresses(), [RESOURCE_PATH, RESOURCE_ROOT]);
}

#[test]
fn metadata_for_another_resource_is_refused_at_every_revision() {
    for resource in [
        "https://evil.example/mcp",
        "https://mcp.example.com/mcp/other",
        "https://mcp.example.com:444/mcp",
    ] {
        for revision in Revision::ALL {
            let mut script = Script::usual().json(
                RESOURCE_PATH,
                &but(resource_metadata(), json!({"resource": resource})),
            );
            let error = failure(&mut script, options_at(revision));
            assert!(
                matches!(error, DiscoveryError::ResourceMismatch { .. }),
                "{error}"
            );
            assert_eq!(
                script.addresses(),
                [RESOURCE_PATH],
                "no authorization server is asked"
            );
        }
    }
}

#[test]
fn a_configured_resource_text_stands_in_for_wrong_metadata() {
    let mut script = Script::usual().json(
        RESOURCE_PATH,
        &but(resource_metadata(), json!({"resource": "http://internal/mcp"})),
    );
    let mut options = options();
    options.resource = ResourceSetting::Text("api://mcp".to_owned());
    script.run(options).unwrap();
    assert_eq!(script.browsed("resource"), Some("api://mcp"));
    assert_eq!(script.only(TOKEN).form()["resource"], "api://mcp");
}

#[test]
fn the_resource_is_sent_as_the_text_that_was_published_since_2025_06_18() {
    for resource in [
        "https://mcp.example.com",
        "https://mcp.example.com/",
        "https://MCP.example.com/mcp/",
        SERVER,
    ] {
        for revision in Revision::ALL {
            let mut script = Script::usual().json(
                RESOURCE_PATH,
                &but(resource_metadata(), json!({"resource": resource})),
            );
            let record = script.run(options_at(revision)).unwrap().record;
            let expected = (revision >= Revision::V2025_06_18).then_some(resource);
            assert_eq!(script.browsed("resource"), expected, "{revision}");
            assert_eq!(
                script.only(TOKEN).form().get("resource").map(String::as_str),
                expected,
                "{revision}"
            );
            assert_eq!(record.resource.as_deref(), expected);
        }
    }
}

#[test]
fn the_resource_is_left_out_where_a_person_said_so() {
    let mut script = Script::usual();
    let mut options = options();
    options.resource = ResourceSetting::Omitted;
    script.run(options).unwrap();
    assert_eq!(script.browsed("resource"), None);
    assert_eq!(script.only(TOKEN).form().get("resource"), None);
}

#[test]
fn the_metadata_of_an_issuer_with_a_path_is_looked_for_in_three_places_and_never_at_the_root() {
    let issuer = "https://auth.example.com/t";
    let places = [
        "https://auth.example.com/.well-known/oauth-authorization-server/t",
        "https://auth.example.com/.well-known/openid-configuration/t",
        "https://auth.example.com/t/.well-known/openid-configuration",
    ];
    for (at, place) in places.into_iter().enumerate() {
        let mut script = Script::usual()
            .json(
                RESOURCE_PATH,
                &but(resource_metadata(), json!({"authorization_servers": [issuer]})),
            )
            .json(place, &server_metadata(issuer))
            .json("https://auth.example.com/t/token", &json!({"access_token": "at"}))
            .answer(
                "https://auth.example.com/t/register",
                201,
                &json!({"client_id": "c"}),
            );
        script.run(options()).unwrap();
        assert_eq!(script.addresses()[1..=at + 1], places[..=at]);
        assert!(script.sent_to(ISSUER_OAUTH).is_empty() && script.sent_to(ISSUER_OPENID).is_empty());
    }
    let mut script = Script::usual().json(
        RESOURCE_PATH,
        &but(resource_metadata(), json!({"authorization_servers": [issuer]})),
    );
    let error = failure(&mut script, options());
    assert!(
        matches!(error, DiscoveryError::IssuerMetadataMissing { .. }),
        "{error}"
    );
    assert_eq!(script.addresses()[1..], places);
}

#[test]
fn the_metadata_of_an_issuer_without_a_path_is_looked_for_in_both_root_forms() {
    let mut script = Script::usual()
        .answer(ISSUER_OAUTH, 404, &json!({}))
        .json(ISSUER_OPENID, &server_metadata(ISSUER));
    script.run(options()).unwrap();
    assert_eq!(script.addresses()[1..3], [ISSUER_OAUTH, ISSUER_OPENID]);
}

#[test]
fn metadata_of_another_issuer_is_refused_since_2026_and_kept_under_the_asked_issuer_before() {
    for found in [
        "https://evil.example",
        "https://auth.example.com/",
        "https://AUTH.example.com",
    ] {
        for revision in Revision::ALL {
            let mut script = Script::usual().json(
                ISSUER_OAUTH,
                &but(server_metadata(ISSUER), json!({"issuer": found})),
            );
            if revision == Revision::V2026_07_28 {
                let error = failure(&mut script, options_at(revision));
                assert!(matches!(error, DiscoveryError::IssuerMismatch { .. }), "{error}");
                assert_eq!(
                    script.addresses(),
                    [RESOURCE_PATH, ISSUER_OAUTH],
                    "no endpoint is used"
                );
            } else {
                let completed = script.run(options_at(revision)).unwrap();
                assert_eq!(
                    completed.record.issuer, ISSUER,
                    "the key is the issuer that was asked"
                );
                assert_eq!(completed.registration.unwrap().issuer, ISSUER);
            }
        }
    }
}

#[test]
fn without_resource_metadata_the_origin_of_the_server_is_the_authorization_server() {
    let origin = "https://mcp.example.com";
    let place = "https://mcp.example.com/.well-known/oauth-authorization-server";
    for revision in Revision::ALL {
        // The path of the issuer shows that 2025-03-26 does not compare it.
        let metadata = but(
            server_metadata(origin),
            json!({"issuer": "https://mcp.example.com/oauth", "code_challenge_methods_supported": null}),
        );
        let mut script = Script::empty()
            .json(place, &metadata)
            .answer(
                "https://mcp.example.com/register",
                201,
                &json!({"client_id": "c"}),
            )
            .json("https://mcp.example.com/token", &json!({"access_token": "at"}));
        let record = script.run(options_at(revision)).unwrap().record;
        assert_eq!(script.addresses()[..3], [RESOURCE_PATH, RESOURCE_ROOT, place]);
        assert_eq!(record.issuer, origin);
        assert_eq!(script.browsed("resource"), None);
        assert_eq!(script.browsed("code_challenge_method"), Some("S256"));
    }
}

#[test]
fn without_any_metadata_the_default_endpoints_of_the_origin_are_used() {
    for status in [404, 401, 403, 405, 410] {
        let mut script = Script::empty()
            .answer(RESOURCE_PATH, status, &json!({}))
            .answer(
                "https://mcp.example.com/register",
                201,
                &json!({"client_id": "c", "client_secret": "s"}),
            )
            .json("https://mcp.example.com/token", &json!({"access_token": "at"}));
        script.run(options()).unwrap();
        assert!(script.browsed("code_challenge").is_some());
        let token = script.only("https://mcp.example.com/token");
        assert!(token.authorization.as_deref().unwrap().starts_with("Basic "));
    }
}

#[test]
fn a_server_that_fails_is_not_a_server_without_metadata() {
    for address in [RESOURCE_PATH, ISSUER_OAUTH] {
        for status in [429, 500, 503, 408] {
            let mut response = HttpResponse::json(status, "");
            response.retry_after = Some(Duration::from_secs(9));
            let mut script = Script::usual().raw(address, response);
            let error = script.run(options()).unwrap_err();
            assert!(error.is_temporary(), "{error}");
            assert_eq!(error.retry_after(), Some(Duration::from_secs(9)));
            assert_eq!(script.addresses().last(), Some(&address));
        }
    }
}

#[test]
fn a_redirect_that_was_not_followed_is_neither_a_document_nor_its_absence() {
    for address in [RESOURCE_PATH, ISSUER_OAUTH] {
        for status in [301, 302, 307, 600] {
            let mut script = Script::usual().answer(address, status, &resource_metadata());
            let error = failure(&mut script, options());
            assert!(
                matches!(error, DiscoveryError::UnexpectedStatus { .. }),
                "{error}"
            );
            assert_eq!(script.addresses().last(), Some(&address));
        }
    }
}

#[test]
fn the_pinned_issuer_is_used_even_if_it_is_not_the_first() {
    let other = "https://other.example.com";
    let both = but(
        resource_metadata(),
        json!({"authorization_servers": [other, ISSUER]}),
    );
    let mut script = Script::usual().json(RESOURCE_PATH, &both);
    let mut pinned = options();
    pinned.issuer = Some(ISSUER.to_owned());
    assert_eq!(script.run(pinned.clone()).unwrap().record.issuer, ISSUER);
    pinned.issuer = Some("https://third.example.com".to_owned());
    let error = failure(&mut Script::usual().json(RESOURCE_PATH, &both), pinned);
    assert!(
        matches!(error, DiscoveryError::PinnedIssuerNotListed { .. }),
        "{error}"
    );
}

#[test]
fn the_pinned_issuer_is_used_where_the_server_names_none() {
    for script in [
        Script::usual().answer(RESOURCE_PATH, 404, &json!({})),
        Script::usual().json(
            RESOURCE_PATH,
            &but(resource_metadata(), json!({"authorization_servers": []})),
        ),
    ] {
        let mut script = script;
        let mut pinned = options();
        pinned.issuer = Some(ISSUER.to_owned());
        let record = script.run(pinned).unwrap().record;
        assert_eq!(record.issuer, ISSUER);
        assert_eq!(
            script.browsed("resource"),
            Some(SERVER),
            "the address of the server stands for it"
        );
    }
}

#[test]
fn of_several_issuers_the_one_with_a_registration_is_used_and_else_the_first() {
    let other = "https://other.example.com";
    let both = but(
        resource_metadata(),
        json!({"authorization_servers": [other, ISSUER]}),
    );
    let registration = Script::usual().run(options()).unwrap().registration.unwrap();
    let mut script = Script::usual().json(RESOURCE_PATH, &both);
    let mut known = options();
    known.registrations = vec![registration];
    assert_eq!(script.run(known).unwrap().record.issuer, ISSUER);
    assert!(script.sent_to(crate::support::REGISTER).is_empty());
    let mut script = Script::usual().json(RESOURCE_PATH, &both);
    let error = failure(&mut script, options());
    assert!(matches!(error, DiscoveryError::IssuerMetadataMissing { issuer } if issuer == other));
}

#[test]
fn metadata_without_an_authorization_server_says_what_to_configure() {
    for servers in [json!(null), json!([])] {
        let mut script = Script::usual().json(
            RESOURCE_PATH,
            &but(resource_metadata(), json!({"authorization_servers": servers})),
        );
        let error = failure(&mut script, options());
        assert_eq!(error, DiscoveryError::NoAuthorizationServer);
        assert!(error.to_string().contains("`issuer`"));
    }
}

#[test]
fn a_web_page_instead_of_metadata_is_named_as_such() {
    for address in [RESOURCE_PATH, ISSUER_OAUTH] {
        let mut page = HttpResponse::json(200, "<!doctype html><p>hunter2");
        page.content_type = Some("text/html".to_owned());
        let mut script = Script::usual().raw(address, page);
        let error = failure(&mut script, options());
        let DiscoveryError::Document { url, error } = error else {
            panic!("{error}")
        };
        assert_eq!(url, address);
        assert!(matches!(error, DocumentError::Html { .. }));
        assert!(!script.shown.contains("hunter2"));
    }
}

#[test]
fn a_web_page_at_one_address_does_not_hide_the_document_at_the_next() {
    let page = HttpResponse::json(200, "<html>");
    let mut script = Script::usual()
        .raw(RESOURCE_PATH, page.clone())
        .json(RESOURCE_ROOT, &resource_metadata());
    script = script
        .raw(ISSUER_OAUTH, page)
        .json(ISSUER_OPENID, &server_metadata(ISSUER));
    script.run(options()).unwrap();
}

#[test]
fn a_server_without_tls_gets_no_login_unless_it_is_local_or_allowed() {
    let mut plain = mainstay_oauth::LoginOptions::new(url("http://mcp.example.com/mcp"));
    let error = Script::empty().run(plain.clone()).unwrap_err();
    assert!(
        matches!(
            error,
            LoginError::Discovery(DiscoveryError::Address(AddressError::Scheme { .. }))
        ),
        "{error}"
    );
    plain.allow_private = true;
    let mut script = Script::empty();
    let _ = script.run(plain);
    assert!(!script.sent.is_empty());
    let mut script = Script::empty();
    let _ = script.run(mainstay_oauth::LoginOptions::new(url(
        "http://localhost:3000/mcp",
    )));
    assert!(!script.sent.is_empty());
}
