//! What a server offers, and what it says of itself.

use mainstay::Era;

use crate::fidelity::odd::{CAPABILITIES, INFO, PROMPT, RESOURCE, TEMPLATE, TOOL};
use crate::fidelity::{assert_same, everywhere};

#[tokio::test]
async fn what_a_server_lists_passes_byte_for_byte() {
    everywhere(async |pair| {
        for (method, field, item) in [
            ("tools/list", "tools", &TOOL),
            ("prompts/list", "prompts", &PROMPT),
            ("resources/list", "resources", &RESOURCE),
            ("resources/templates/list", "resourceTemplates", &TEMPLATE),
        ] {
            let got = pair.client.ask(method, "", "").await;
            let list = match pair.down.era() {
                Era::Legacy => format!(r#"{{"{field}":[{}]}}"#, **item),
                Era::Modern => format!(
                    r#"{{"resultType":"complete","{field}":[{}],"ttlMs":0,"cacheScope":"private"}}"#,
                    **item
                ),
            };
            let expected = format!(r#"{{"jsonrpc":"2.0","id":"\u0069d","result":{list}}}"#);
            assert_same(pair, &got.concat(), &expected);
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_server_says_of_itself_passes_byte_for_byte() {
    everywhere(async |pair| match pair.down.era() {
        Era::Legacy => {
            let expected = format!(
                r#"{{"jsonrpc":"2.0","id":"i","result":{{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}}}}"#,
                *CAPABILITIES, *INFO
            );
            assert_same(pair, &pair.client.greeting, &expected);
        }
        Era::Modern => {
            let got = pair.client.ask("server/discover", "", "").await.concat();
            let versions = r#"["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]"#;
            let expected = format!(
                r#"{{"jsonrpc":"2.0","id":"\u0069d","result":{{"resultType":"complete","supportedVersions":{versions},"capabilities":{},"ttlMs":0,"cacheScope":"private","_meta":{{"io.modelcontextprotocol/serverInfo":{}}}}}}}"#,
                *CAPABILITIES, *INFO
            );
            assert_same(pair, &got, &expected);
        }
    })
    .await;
}
