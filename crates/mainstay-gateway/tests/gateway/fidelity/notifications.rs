//! What either side tells of its own accord, outside of any call.

use mainstay::Era;

use crate::fidelity::downstream::Downstream;
use crate::fidelity::odd::{ODD, REST};
use crate::fidelity::{assert_same, everywhere, everywhere_alone};

#[tokio::test]
async fn an_unknown_notification_of_a_client_passes_byte_for_byte() {
    everywhere(async |pair| {
        let params = format!(r#"{{"x-told":{ODD},"_meta":{{"example.org/own":{ODD}}}}}"#);
        let method = format!("notifications/x-vendor/{:?}", pair.down);
        pair.client.notify(&method, &params).await;
        let received = pair.scripted.wait_for(&method).await;
        assert_same(pair, &received, &params);
    })
    .await;
}

#[tokio::test]
async fn notifications_outside_of_calls_pass_byte_for_byte_to_the_one_session() {
    everywhere_alone(async |pair| {
        if pair.down == Downstream::Http(Era::Modern) {
            // Each of its requests stands alone, and its listen is for changes.
            return;
        }
        pair.client.listen().await;
        // A client that has sent nothing yet receives nothing.
        pair.client.ask("x-vendor/method", "", "").await;
        for (method, first) in [
            ("message", format!(r#""level":"error","data":{ODD}"#)),
            ("x-vendor/thing", format!(r#""x-told":{ODD}"#)),
        ] {
            if method == "message" && pair.down.era() == Era::Modern {
                // In its era a log belongs to a request.
                continue;
            }
            pair.scripted.notify(method, &first).await;
            let expected = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{first},{}}}}}"#,
                *REST
            );
            let got = pair.client.unasked().await;
            assert_same(pair, &got, &expected);
        }
    })
    .await;
}
