//! The dashboard of the daemon: a listener on loopback, opened when a person first asks for the page.
//!
//! The port is noted in the runtime directory, and the next daemon listens there again, so that a page comes back by itself.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use mainstay::config::Secret;
use mainstay_control::api::{ApiProblem, ProblemKind};
use mainstay_control::{
    API_ROOT, Control, ControlService, METRICS_PATH, MetricsAccess, OpenPage, PAGE_ROOT, PageLogins,
};
use mainstay_gateway::HttpDoor;
use tokio::net::TcpListener;
use tokio::sync::OnceCell;

use super::Daemon;
use crate::live::state_directory;
use mainstay_bridge::{RuntimeDirectory, open_runtime_file};

/// More than a number takes.
const NOTE_LIMIT: u64 = 64;

/// Where the dashboard is, once it is open.
pub(super) struct PagePlace {
    token: Secret,
    port_file: PathBuf,
    opened: OnceCell<SocketAddr>,
}

impl PagePlace {
    pub(super) fn new(token: Secret, directory: &RuntimeDirectory) -> Self {
        Self {
            token,
            port_file: directory.page_port(),
            opened: OnceCell::new(),
        }
    }

    /// The control API with the dashboard.
    pub(super) fn service(&self, control: &Control, daemon: Weak<Daemon>) -> ControlService {
        let open: OpenPage = Box::new(move || {
            let daemon = daemon.clone();
            Box::pin(async move {
                let ended = || ApiProblem::new(ProblemKind::Conflict, "the daemon ends");
                let daemon = daemon.upgrade().ok_or_else(ended)?;
                let address = daemon.open_page().await.map_err(|error| {
                    let title = format!("the dashboard cannot be opened on 127.0.0.1 ({error})");
                    ApiProblem::new(ProblemKind::Internal, title)
                })?;
                Ok(format!("http://{address}"))
            })
        });
        let pages = PageLogins::new(self.token.expose(), page_key_file());
        ControlService::with_pages(control, MetricsAccess::none(), pages, Some(open))
    }

    async fn listen(&self) -> io::Result<TcpListener> {
        if let Some(port) = self.noted_port().map_err(|error| self.in_file(&error))?
            && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
        {
            return Ok(listener);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        self.note(port).map_err(|error| self.in_file(&error))?;
        Ok(listener)
    }

    /// The port that an earlier daemon noted.
    fn noted_port(&self) -> io::Result<Option<u16>> {
        let file = match open_runtime_file(OpenOptions::new().read(true), &self.port_file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut noted = String::new();
        let read = file.take(NOTE_LIMIT).read_to_string(&mut noted);
        Ok(read.ok().and_then(|_| noted.trim().parse().ok()))
    }

    fn note(&self, port: u16) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        writeln!(open_runtime_file(&mut options, &self.port_file)?, "{port}")
    }

    fn in_file(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.port_file.display()))
    }
}

/// What pages come back with after a restart.
fn page_key_file() -> Option<PathBuf> {
    Some(state_directory(|name| env::var_os(name))?.join("page-key"))
}

impl Daemon {
    /// Opens the dashboard again where an earlier daemon had it: a page may wait for it.
    pub(super) async fn reopen_page(self: &Arc<Self>) {
        let was_open = self
            .page
            .as_ref()
            .is_some_and(|page| page.port_file.symlink_metadata().is_ok());
        if was_open && let Err(error) = self.open_page().await {
            tracing::warn!(%error, "the dashboard is not opened again");
        }
    }

    /// The address of the dashboard, which is opened if it is not yet.
    async fn open_page(self: &Arc<Self>) -> io::Result<SocketAddr> {
        let page = self.page.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let open = || async {
            let listener = page.listen().await?;
            let address = listener.local_addr()?;
            let service = Arc::new(self.control.clone());
            // The same token closes the door of MCP: hosts come through bridges.
            let door = HttpDoor::new().token(page.token.expose()).mount(
                &[API_ROOT, PAGE_ROOT, METRICS_PATH],
                Some(page.token.clone()),
                service,
            );
            let (gateway, mut ending) = (self.configured.clone(), self.ending.subscribe());
            tokio::spawn(async move {
                let shutdown = async move {
                    let _ = ending.wait_for(Option::is_some).await;
                };
                if let Err(error) = gateway.serve_http(listener, door, shutdown).await {
                    tracing::warn!(%error, "the dashboard is closed");
                }
            });
            Ok(address)
        };
        page.opened.get_or_try_init(open).await.copied()
    }
}
