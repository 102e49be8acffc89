//! The dashboard of the daemon: a listener on loopback, opened when a person first asks for the page.
//!
//! The port is noted in the runtime directory, and the next daemon listens there again, so that a page comes back by itself.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
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
use mainstay_bridge::{RuntimeDirectory, runtime_file_flags};

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
                    let title = format!("the dashboard cannot listen on 127.0.0.1 ({error})");
                    ApiProblem::new(ProblemKind::Internal, title)
                })?;
                Ok(format!("http://{address}"))
            })
        });
        let pages = PageLogins::new(self.token.expose(), page_key_file());
        ControlService::with_pages(control, MetricsAccess::none(), pages, Some(open))
    }

    async fn listen(&self) -> io::Result<TcpListener> {
        let noted = fs::read_to_string(&self.port_file).ok();
        let noted = noted.and_then(|port| port.trim().parse::<u16>().ok());
        if let Some(port) = noted
            && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
        {
            return Ok(listener);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(runtime_file_flags())
            .open(&self.port_file)?;
        writeln!(file, "{port}")?;
        Ok(listener)
    }
}

/// What pages come back with after a restart.
fn page_key_file() -> Option<PathBuf> {
    Some(state_directory(|name| env::var_os(name))?.join("page-key"))
}

impl Daemon {
    /// Opens the dashboard again where an earlier daemon had it: a page may wait for it.
    pub(super) async fn reopen_page(self: &Arc<Self>) {
        let was_open = self.page.as_ref().is_some_and(|page| page.port_file.exists());
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
