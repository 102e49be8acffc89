//! What carries the messages of a puppet to the gateway: lines, or HTTP.

use std::sync::Arc;

use bytes::Bytes;
use mainstay::transport::{Connecting, Connector, Limits, Lines, Transport};
use mainstay::{Era, ServerConfig};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::puppet::Puppet;

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
    pub(crate) async fn start(self) -> (Arc<Puppet>, ServerConfig) {
        let puppet = Puppet::new(self.era());
        let config = match self {
            Self::Stdio(_) => ServerConfig::custom("one", "one", Arc::new(Pipes(puppet.clone()))).build(),
            Self::Http(_) => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                tokio::spawn(serve(listener, puppet.clone()));
                ServerConfig::http("one", format!("http://{address}/mcp")).build()
            }
        };
        (puppet, config.unwrap())
    }
}

/// Lines, as a process has them on its standard input and output.
struct Pipes(Arc<Puppet>);

impl Connector for Pipes {
    fn connect(&self) -> Connecting<'_> {
        let (near, far) = tokio::io::duplex(1024 * 1024);
        tokio::spawn(talk(far, self.0.clone()));
        let (reader, writer) = tokio::io::split(near);
        let lines: Box<dyn Transport> = Box::new(Lines::new(reader, writer, Limits::default()));
        Box::pin(std::future::ready(Ok(lines)))
    }
}

async fn talk(far: DuplexStream, puppet: Arc<Puppet>) {
    let (reader, mut writer) = tokio::io::split(far);
    let (out, mut says) = mpsc::unbounded_channel::<String>();
    tokio::spawn(async move {
        while let Some(line) = says.recv().await {
            let written = writer.write_all(format!("{line}\n").as_bytes()).await;
            if written.is_err() {
                return;
            }
        }
    });
    puppet.speaks_on(out.clone(), String::new());
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let (puppet, out) = (puppet.clone(), out.clone());
        tokio::spawn(async move { puppet.take(line.into(), out).await });
    }
}

async fn serve(listener: TcpListener, puppet: Arc<Puppet>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(exchange(stream, puppet.clone()));
    }
}

/// One exchange on one connection: a message comes, and what it leads to goes out as events.
async fn exchange(stream: TcpStream, puppet: Arc<Puppet>) -> Option<()> {
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
    if head.starts_with("GET") && puppet.era == Era::Legacy {
        let begin = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(begin.as_bytes()).await.ok()?;
        let (out, mut says) = mpsc::unbounded_channel::<String>();
        puppet.speaks_on(out, String::new());
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
        puppet.take(body, out).await;
        let taken = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(taken.as_bytes()).await.ok()?;
        return None;
    }
    let session = match puppet.era {
        Era::Legacy => "mcp-session-id: s1\r\n",
        Era::Modern => "",
    };
    let begin =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{session}connection: close\r\n\r\n");
    stream.write_all(begin.as_bytes()).await.ok()?;
    tokio::spawn(async move { puppet.take(body, out).await });
    while let Some(line) = says.recv().await {
        stream
            .write_all(format!("data: {line}\n\n").as_bytes())
            .await
            .ok()?;
    }
    Some(())
}
