//! What carries the messages of a scripted to the gateway: lines, or HTTP.

use std::sync::Arc;

use bytes::Bytes;
use mainstay::transport::{Connecting, Connector, Limits, Lines, Transport};
use mainstay::{Era, ServerConfig};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::fidelity::scripted_server::ScriptedServer;

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upstream {
    Stdio(Era),
    Http(Era),
}

impl Upstream {
    pub(crate) const ALL: [Self; 4] = [
        Self::Stdio(Era::Legacy),
        Self::Stdio(Era::Modern),
        Self::Http(Era::Legacy),
        Self::Http(Era::Modern),
    ];

    pub(crate) fn era(self) -> Era {
        match self {
            Self::Stdio(era) | Self::Http(era) => era,
        }
    }

    /// A server of this kind, named `one`.
    pub(crate) async fn start(self) -> (Arc<ScriptedServer>, ServerConfig) {
        let scripted = ScriptedServer::new(self.era());
        let config = match self {
            Self::Stdio(_) => ServerConfig::custom("one", "one", Arc::new(Pipes(scripted.clone()))).build(),
            Self::Http(_) => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                tokio::spawn(serve(listener, scripted.clone()));
                ServerConfig::http("one", format!("http://{address}/mcp")).build()
            }
        };
        (scripted, config.unwrap())
    }
}

/// Lines, as a process has them on its standard input and output.
struct Pipes(Arc<ScriptedServer>);

impl Connector for Pipes {
    fn connect(&self) -> Connecting<'_> {
        let (near, remote) = tokio::io::duplex(1024 * 1024);
        tokio::spawn(talk(remote, self.0.clone()));
        let (reader, writer) = tokio::io::split(near);
        let lines: Box<dyn Transport> = Box::new(Lines::new(reader, writer, Limits::default()));
        Box::pin(std::future::ready(Ok(lines)))
    }
}

async fn talk(remote: DuplexStream, scripted: Arc<ScriptedServer>) {
    let (reader, mut writer) = tokio::io::split(remote);
    let (out, mut says) = mpsc::unbounded_channel::<String>();
    tokio::spawn(async move {
        while let Some(line) = says.recv().await {
            let written = writer.write_all(format!("{line}\n").as_bytes()).await;
            if written.is_err() {
                return;
            }
        }
    });
    scripted.speaks_on(out.clone(), String::new());
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let (scripted, out) = (scripted.clone(), out.clone());
        tokio::spawn(async move { scripted.take(line.into(), out).await });
    }
}

async fn serve(listener: TcpListener, scripted: Arc<ScriptedServer>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(exchange(stream, scripted.clone()));
    }
}

/// One exchange on one connection: a message comes, and what it leads to goes out as events.
async fn exchange(stream: TcpStream, scripted: Arc<ScriptedServer>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let length = head.to_ascii_lowercase().lines().find_map(|line| {
        let length = line.strip_prefix("content-length:")?;
        length.trim().parse::<usize>().ok()
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    if head.starts_with("GET") && scripted.era == Era::Legacy {
        let begin = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(begin.as_bytes()).await.ok()?;
        let (out, mut says) = mpsc::unbounded_channel::<String>();
        scripted.speaks_on(out, String::new());
        while let Some(line) = says.recv().await {
            let event = format!("data: {line}\n\n");
            stream.write_all(event.as_bytes()).await.ok()?;
        }
        return None;
    }
    if !head.starts_with("POST") {
        let none = "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(none.as_bytes()).await.ok()?;
        return None;
    }
    let body = Bytes::from(body);
    let has_answer = {
        let text = String::from_utf8_lossy(&body);
        text.contains(r#""method":"#) && text.contains(r#""id":"#)
    };
    let (out, mut says) = mpsc::unbounded_channel::<String>();
    if !has_answer {
        scripted.take(body, out).await;
        let taken = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(taken.as_bytes()).await.ok()?;
        return None;
    }
    let session = match scripted.era {
        Era::Legacy => "mcp-session-id: s1\r\n",
        Era::Modern => "",
    };
    let begin =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{session}connection: close\r\n\r\n");
    stream.write_all(begin.as_bytes()).await.ok()?;
    tokio::spawn(async move { scripted.take(body, out).await });
    while let Some(line) = says.recv().await {
        stream
            .write_all(format!("data: {line}\n\n").as_bytes())
            .await
            .ok()?;
    }
    Some(())
}
