//! OAuth logins for the MCP servers that [`mainstay`] keeps connected.
//!
//! A [`LoginProvider`] is the [`Credentials`](mainstay::transport::http::Credentials) of one server. It takes its token from
//! a [`LoginStore`], renews it before it expires, and never waits for a person. [`LoginProvider::login`] is the part
//! with a person:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use mainstay::{Fleet, ServerConfig};
//! use mainstay_login::{FileStore, LoginPrompt, LoginProvider, LoginRequest, LoginSettings, StoreProtection};
//!
//! let store = Arc::new(FileStore::open(Path::new("/home/ann/.local/state/app/logins"), StoreProtection::Plain)?);
//! let settings = LoginSettings::new("https://mcp.example/mcp".parse()?);
//! let provider = LoginProvider::new(settings, store);
//! let server = ServerConfig::http("search", "https://mcp.example/mcp").credentials(Arc::new(provider.clone())).build()?;
//! let fleet = Fleet::builder().start([server]);
//!
//! // When the server's status says `auth_required`:
//! let mut login = provider.login(LoginRequest::default()).await?;
//! if let LoginPrompt::Browse(address) = login.prompt() {
//!     println!("open {}", address.url());
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
pub use provider::{LoginProvider, LoginRequest, LoginSummary, StartedLogin, finish_renewals};
pub use settings::{GrantSetting, LoginSettings};
pub use store::{
    FileStore, LoginKey, LoginStore, LoginStoreError, ReadLogin, STORED_LOGIN_VERSION, StoreDescription,
    StoreLock, StoreProtection, StoreVersion, StoreWatch, StoredLogin,
};
