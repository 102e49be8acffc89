//! Payloads pass as they are, both ways, in either form of an answer.

use mainstay::{CallOptions, RawJson};
use mainstay_testkit::Script;
use mainstay_testkit::http::{HttpScript, Serves};
use serde_json::Value;

use crate::http::support::{ERAS, connected, keep, serve, web};

/// A round trip through a number type or a map would change each of these.
const EXACT: &str =
    r#"{"z":1.0,"a":1e2,"big":123456789012345678901234567890,"escaped":"\u00e9","nested":{"b":[],"a":null}}"#;

#[tokio::test]
async fn what_is_sent_and_what_is_answered_passes_byte_for_byte() {
    let sse = HttpScript::new().serves(Serves::Sse);
    let mut stages = vec![(mainstay_testkit::Speaks::Legacy, sse, "/sse")];
    for speaks in ERAS {
        stages.push((speaks, HttpScript::new(), "/mcp"));
        stages.push((speaks, HttpScript::new().streams(), "/mcp"));
    }
    for (speaks, http, path) in stages {
        let remote = serve(Script::new().speaks(speaks).fidelity(), http).await;
        let (fleet, server) = keep(web("web", &remote.url(path)));
        connected(&server).await;
        let params = format!(
            r#"{{"name":"reflect","arguments":{EXACT},"x-new":[1.0],"_meta":{{"example.org/own":{EXACT}}}}}"#
        );
        let params = RawJson::from_text(&params).unwrap();
        let trace = RawJson::from_text(r#"{"id":1.0}"#).unwrap();
        let options = CallOptions::default().meta("example.org/trace", trace);
        let reply = server
            .request("tools/call", Some(params))
            .options(options)
            .await
            .unwrap();
        let text = reply.result.as_str();
        let arguments = format!(r#""arguments":{EXACT}"#);
        let own = format!(r#""example.org/own":{EXACT}"#);
        for kept in [
            arguments.as_str(),
            &own,
            r#""x-new":[1.0]"#,
            r#""example.org/trace":{"id":1.0}"#,
            r#""x-result":{"float":1.0,"exponent":1e2,"big":123456789012345678901234567890,"escaped":"\u00e9"}"#,
            r#""example.org/trace":"t-1""#,
            r#""x-content":{"kept":true}"#,
        ] {
            assert!(text.contains(kept), "{kept} in {text}");
        }
        let catalog = fleet.catalog();
        let published: Value = catalog.tool("web__echo").unwrap().published().parse().unwrap();
        assert_eq!(published["x-item"]["nested"][2]["deep"], "é");
        assert_eq!(published["_meta"]["example.org/item"], 1);
    }
}
