//! A server over HTTP, kept by a fleet: the handshake of the old way, and a session that is lost.

use std::future::ready;
use std::io;

use serde_json::{Value, json};

use super::remote_server::{Exchange, LONG};
use super::*;
use crate::transport::Transport;
use crate::{Era, Fleet, ServerConfig};

/// Plays a legacy server of one session until it is aborted.
async fn play(remote: Arc<RemoteServer>, session: &'static str) {
    loop {
        let asked = remote.next().await;
        if asked.method != "POST" {
            asked.answer(405, "", "").await;
            continue;
        }
        let message: Value = serde_json::from_str(&asked.body).unwrap();
        let id = message["id"].clone();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        if method != "initialize" && asked.header("mcp-session-id") != Some(session) {
            let error =
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "no session"}});
            asked.json(400, &error.to_string()).await;
            continue;
        }
        let result = match method.as_str() {
            "initialize" => json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}
            }),
            "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            "tools/call" => json!({"content": [], "session": session}),
            _notification => {
                asked.answer(202, "", "").await;
                continue;
            }
        };
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        answer_with_session(asked, session, &answer).await;
    }
}

async fn answer_with_session(asked: Exchange, session: &str, answer: &str) {
    let headers = format!("content-type: application/json\r\nmcp-session-id: {session}\r\n");
    asked.answer(200, &headers, answer).await;
}

#[tokio::test]
async fn a_legacy_server_is_greeted_listed_called_and_found_again_after_it_lost_the_session() {
    let remote = Arc::new(RemoteServer::start().await);
    let playing = tokio::spawn(play(remote.clone(), "s1"));
    let url = remote.url().to_owned();
    let connector = Arc::new(move || {
        let opened = Http::new(&url, HttpOptions::new()).map_err(io::Error::other);
        ready(opened.map(|http| Box::new(http) as Box<dyn Transport>))
    });
    let config = ServerConfig::custom("web", remote.url(), connector)
        .build()
        .unwrap();
    let fleet = Fleet::builder().start([config]);
    let server = fleet.server("web").unwrap();
    let status = server.wait_connected(LONG).await.unwrap();
    assert_eq!(status.protocol.map(|(era, _)| era), Some(Era::Legacy));
    assert_eq!(fleet.catalog().tools().len(), 1);
    let first = server.call("echo", &json!({})).await.unwrap();
    assert!(first.result.as_str().contains("s1"));

    // The server forgets its sessions.
    playing.abort();
    let playing = tokio::spawn(play(remote.clone(), "s2"));
    let lost = server.call("echo", &json!({})).await;
    if let Err(error) = lost {
        assert_eq!(error.outcome(), Outcome::Refused, "{error}");
    }
    server
        .wait_until(LONG, |status| status.starts == 2)
        .await
        .unwrap();
    server.wait_connected(LONG).await.unwrap();
    let again = server.call("echo", &json!({})).await.unwrap();
    assert!(again.result.as_str().contains("s2"));
    assert!(again.generation > first.generation);
    fleet.close(LONG).await;
    playing.abort();
}
