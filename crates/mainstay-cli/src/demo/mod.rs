//! A small MCP server inside the program: something real to connect to, with nothing to install.
//!
//! It serves both eras of the protocol on stdio and shows each kind of offer: tools that are quick, slow, cancellable
//! or deadly, a prompt, a resource and a template. It touches no file, no network and no secret.
//!
//! [`serve`] reads messages one by one and answers them at once, but for calls: each is a task of its own, so a
//! sleeping call blocks nothing. All output goes through one queue, so messages never mix.

mod clock;
mod line;
mod offers;
mod protocol;
mod session;
mod tools;

use anyhow::Context as _;
use tokio::io::{self, AsyncBufRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

use line::DemoLine;
use session::DemoSession;

/// Messages that may wait for a client that reads slowly; adding one more waits.
const QUEUED_MESSAGES: usize = 256;

/// Serves stdin and stdout until stdin ends.
pub(crate) fn run() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .context("start the runtime")?;
    let served = runtime.block_on(serve(BufReader::new(io::stdin()), io::stdout()));
    // A read of stdin that is under way cannot be cancelled, and must not keep the process.
    runtime.shutdown_background();
    served.context("serve on stdin and stdout")
}

/// Serves until the input ends or the output breaks. Calls that still run a moment later are dropped.
///
/// # Cancel safety
/// Not safe: a message half read or half written is lost.
async fn serve(mut input: impl AsyncBufRead + Unpin, output: impl AsyncWrite + Unpin) -> io::Result<()> {
    let (messages, queue) = mpsc::channel(QUEUED_MESSAGES);
    let read = async move {
        let mut session = DemoSession::new(messages);
        let mut buffer = Vec::new();
        loop {
            match line::read(&mut input, &mut buffer).await? {
                DemoLine::Whole => session.line(&buffer).await,
                DemoLine::TooLong => session.line_too_long().await,
                DemoLine::End => break,
            }
        }
        session.end().await;
        Ok(())
    };
    // The session owns the queue's sender, so the writer ends, with all written, when the reader has.
    tokio::try_join!(read, write(output, queue)).map(|((), ())| ())
}

async fn write(mut output: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<String>) -> io::Result<()> {
    while let Some(mut message) = queue.recv().await {
        message.push('\n');
        output.write_all(message.as_bytes()).await?;
        output.flush().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt as _, duplex};

    use super::*;

    /// What a pipe holds.
    const PIPE: usize = 64 * 1024;

    #[tokio::test]
    async fn two_large_calls_at_once_are_answered_though_the_client_reads_only_when_it_has_written_both() {
        let (mut to_server, input) = duplex(PIPE);
        let (output, from_server) = duplex(PIPE);
        let serving = tokio::spawn(serve(BufReader::new(input), output));
        let text = "x".repeat(16 * 1024 * 1024);
        for id in [1, 2] {
            let params = json!({ "name": "echo", "arguments": { "text": text } });
            let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
            let line = format!("{call}\n");
            to_server.write_all(line.as_bytes()).await.unwrap();
        }
        let mut lines = BufReader::new(from_server).lines();
        let mut answered = BTreeMap::new();
        while answered.len() < 2 {
            let line = lines.next_line().await.unwrap().expect("an answer");
            let answer: Value = serde_json::from_str(&line).unwrap();
            let said = answer["result"]["content"][0]["text"].as_str().map(str::len);
            assert!(answered.insert(answer["id"].as_u64(), said).is_none());
        }
        let whole = Some(text.len());
        assert_eq!(answered, BTreeMap::from([(Some(1), whole), (Some(2), whole)]));
        drop(to_server);
        serving.await.unwrap().unwrap();
    }
}
