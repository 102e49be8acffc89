//! OAuth logins for the MCP servers that [`mainstay`] keeps connected.
//!
//! A [`LoginProvider`] is the [`Credentials`](mainstay::transport::http::Credentials) of one server. It takes its token from
//! a [`LoginStore`], renews it before it expires, and never waits for a person. [`Server::login`](mainstay::Server::login) is
//! the part with a person; [`LoginProvider::login`] is the same with more choices:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use mainstay::{Fleet, ServerConfig};
//! use mainstay_login::{FileStore, Logins, StoreProtection};
//!
//! let store = Arc::new(FileStore::open(Path::new("/home/ann/.local/state/app/logins"), StoreProtection::Plain)?);
//! let server = ServerConfig::http("search", "https://mcp.example/mcp").build()?;
//! let fleet = Fleet::builder().credential_source(Arc::new(Logins::new(store))).start([server]);
//! let server = fleet.server("search").expect("just configured");
//!
//! // When the server's status says `auth_required`:
//! let mut login = server.login().await?;
//! if let Some(address) = login.address() {
//!     println!("open {address}");
//! }
//! let summary = login.finished().await?;
//! println!("logged in at {}", summary.issuer);
//! # Ok(())
//! # }
//! ```
//!
//! The server is connected again within a second, in this process and in every other one that uses the same store.
//!
//! `provider` gives out and renews tokens, `flow` runs a login, `listener` receives the browser's redirect, `store` keeps
//! what must outlive the process.

mod blocking;
mod context;
mod error;
mod flow;
mod listener;
mod logins;
mod logout;
mod provider;
mod send;
mod settings;
mod store;

pub use error::{LoginFailure, RenewalFailure};
pub use flow::{LoginPrompt, PERSON_TIMEOUT};
pub use logins::{LoginConfigError, Logins};
pub use logout::{LogoutReport, log_out};
pub use mainstay::transport::http::LoginSummary;
pub use provider::{LoginProvider, LoginRequest, StartedLogin, finish_renewals};
pub use settings::{GrantSetting, LoginSettings};
pub use store::{
    FileStore, KeyringFailure, LoginKey, LoginStore, LoginStoreError, ReadLogin, STORED_LOGIN_VERSION,
    StoreDescription, StoreLock, StoreProtection, StoreVersion, StoreWatch, StoredLogin,
};
