//! Answers what a server asks of its client. Each agent has its own handler, given with its call; the request that the call
//! causes goes to that handler and to no other.
//!
//!     cargo run -p mainstay --example answer

use std::sync::Arc;
use std::time::Duration;

use mainstay::handler::{Answer, ClientCapabilities, ServerRequest};
use mainstay::{CallOptions, ClientHandler, Fleet, RawJson, RpcError, ServerConfig};
use mainstay_testkit::FaultyServer;
use serde_json::json;

/// An agent that answers questions in its own name.
struct Agent(&'static str);

impl ClientHandler for Agent {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            elicitation: true,
            ..ClientCapabilities::default()
        }
    }

    fn request(&self, request: ServerRequest) -> Answer<'_> {
        Box::pin(async move {
            println!("{} is asked for {} by {}", self.0, request.method, request.server);
            let answer = json!({ "action": "accept", "content": { "name": self.0 } });
            RawJson::from_value(&answer)
                .map_err(|error| RpcError::new(RpcError::INTERNAL_ERROR, error.to_string()))
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = FaultyServer::new();
    let mut config = ServerConfig::stdio("demo", program.command()).args(program.args());
    for (name, value) in program.env() {
        config = config.env(name, value);
    }
    let capabilities = ClientCapabilities {
        elicitation: true,
        ..ClientCapabilities::default()
    };
    let fleet = Fleet::builder()
        .capabilities(capabilities)
        .start([config.build()?]);
    let server = fleet.server("demo").ok_or("just configured")?;
    for name in ["Ada", "Grace"] {
        let options = CallOptions::default().handler(Arc::new(Agent(name)));
        let reply = server
            .call("ask", &json!({ "kind": "elicitation" }))
            .options(options)
            .await?;
        println!("{}", reply.result);
    }
    fleet.close(Duration::from_secs(10)).await;
    Ok(())
}
