//! How a server of the cast is reached, and in which era.

use crate::http::{HttpScript, Serves};
use crate::script::Speaks;

/// How a server is reached, and so whose its process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChaosServerKind {
    /// Mainstay starts and ends its process.
    Stdio,
    /// Streamable HTTP of the legacy era: a session lives in one process.
    Session,
    /// Streamable HTTP of the modern era: any process at the address answers.
    Stateless,
    /// HTTP+SSE: a session lives as long as its stream.
    Sse,
}

impl ChaosServerKind {
    /// Half of the servers are on stdio; any six that follow each other are of all kinds.
    #[must_use]
    pub fn of(server: usize) -> Self {
        match server % 6 {
            1 => Self::Session,
            3 => Self::Stateless,
            5 => Self::Sse,
            _ => Self::Stdio,
        }
    }

    /// The eras that this server knows.
    #[must_use]
    pub fn speaks(self, server: usize) -> Speaks {
        let odd = server / 6 % 2 == 1;
        match self {
            Self::Stdio if server.is_multiple_of(4) => Speaks::Legacy,
            Self::Stdio => Speaks::Both,
            Self::Stateless if odd => Speaks::Both,
            Self::Stateless => Speaks::Modern,
            Self::Session | Self::Sse => Speaks::Legacy,
        }
    }

    /// How it speaks HTTP, where it does. Every other one answers with streams, which can be cut in the middle.
    #[must_use]
    pub fn http(self, server: usize) -> Option<HttpScript> {
        let serves = match self {
            Self::Stdio => return None,
            Self::Session | Self::Stateless => Serves::Streamable,
            Self::Sse => Serves::Sse,
        };
        let http = HttpScript::new().serves(serves);
        let streams = server / 6 % 2 == 1;
        Some(if streams { http.streams() } else { http })
    }

    /// Where on its host it is.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Sse => "/sse",
            Self::Stdio | Self::Session | Self::Stateless => "/mcp",
        }
    }
}
