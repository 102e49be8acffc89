//! What a server asks of its client, and tells it unasked.

use mainstay::Era;

use crate::fidelity::downstream::LISTEN;
use crate::fidelity::odd::{ANSWER, ODD, QUESTION, REST, RESULT};
use crate::fidelity::scripted_server::input_required;
use crate::fidelity::{assert_same, everywhere};

#[tokio::test]
async fn a_question_and_its_answer_pass_byte_for_byte() {
    everywhere(async |pair| {
        let mut got = pair.client.ask("tools/call", r#""name":"ask""#, "").await;
        match (pair.up.era(), pair.down.era()) {
            (_, Era::Legacy) => {
                let asked = got.remove(0);
                let (head, params) = asked.split_once(r#","params":"#).expect("a question");
                let id = head
                    .strip_prefix(r#"{"jsonrpc":"2.0","id":"#)
                    .and_then(|head| head.strip_suffix(r#","method":"elicitation/create""#));
                assert!(id.is_some_and(|id| id.parse::<u64>().is_ok()), "{head}");
                assert_same(pair, params, &format!("{}}}", *QUESTION));
            }
            (up, Era::Modern) => {
                let asked = got.remove(0);
                let (expected, name, state) = match up {
                    Era::Modern => (input_required(), "q", r#""\u0073tate""#.to_owned()),
                    Era::Legacy => {
                        let (_, state) = asked.split_once(r#""requestState":"#).expect("a state");
                        let state = state.strip_suffix("}}").expect("the end").to_owned();
                        let asks = format!(
                            r#"{{"resultType":"input_required","inputRequests":{{"request":{{"method":"elicitation/create","params":{}}}}},"requestState":{state}}}"#,
                            *QUESTION
                        );
                        (asks, "request", state)
                    }
                };
                let expected = format!(r#"{{"jsonrpc":"2.0","id":"\u0069d","result":{expected}}}"#);
                assert_same(pair, &asked, &expected);
                let retry = format!(
                    r#""name":"ask","inputResponses":{{"x-other":{ODD},"{name}":{}}},"requestState":{state}"#,
                    *ANSWER
                );
                got = pair.client.ask("tools/call", &retry, "").await;
            }
        }
        assert_same(pair, &got.concat(), &pair.answer("tools/call", &RESULT));
        assert_same(pair, &pair.scripted.received("answer"), &ANSWER);
    })
    .await;
}

#[tokio::test]
async fn an_update_of_a_resource_passes_byte_for_byte_but_for_whose_listen_it_is() {
    everywhere(async |pair| {
        pair.client.subscribe().await;
        let got = pair.client.ask("tools/call", r#""name":"touch""#, "").await;
        let early = got.into_iter().find(|message| message.contains("updated"));
        let update = match early {
            Some(update) => update,
            None => pair.client.unasked().await,
        };
        let label = format!(r#""io.modelcontextprotocol/subscriptionId":{LISTEN}"#);
        let labelled = match (pair.up.era(), pair.down.era()) {
            (_, Era::Legacy) => REST.clone(),
            // In the place of the server's own.
            (Era::Modern, Era::Modern) => REST.replace(r#""_meta":{"#, &format!(r#""_meta":{{{label},"#)),
            (Era::Legacy, Era::Modern) => format!("{},{label}}}", REST.strip_suffix('}').expect("a `_meta`")),
        };
        let expected = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"mem:\/\/one",{labelled}}}}}"#
        );
        assert_same(pair, &update, &expected);
    })
    .await;
}
