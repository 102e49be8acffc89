//! Logins at the protected server of the partners.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstay_login::{
    FileStore, LoginPrompt, LoginProvider, LoginRequest, LoginSettings, LoginStore, LoginSummary,
    StoreProtection,
};
use mainstay_partner::ProtectedServer;

/// A directory that the user alone may enter, as a store wants it.
pub(crate) fn private_directory() -> tempfile::TempDir {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .expect("a directory")
}

pub(crate) fn store(directory: &Path) -> Arc<dyn LoginStore> {
    Arc::new(FileStore::open(directory, StoreProtection::Plain).expect("a store"))
}

pub(crate) fn provider(server: &ProtectedServer, store: &Arc<dyn LoginStore>) -> LoginProvider {
    let address = server.resource.parse().expect("an address");
    LoginProvider::new(LoginSettings::new(address), store.clone())
}

/// Logs in as a person who agrees to everything.
pub(crate) async fn log_in(server: &ProtectedServer, provider: &LoginProvider) -> LoginSummary {
    let mut login = provider
        .login(LoginRequest::default())
        .await
        .expect("a login begins");
    let LoginPrompt::Browse(address) = login.prompt() else {
        panic!("a browser is needed: {:?}", login.prompt());
    };
    let ended_at = server.browse(address.url().as_str(), None);
    assert!(ended_at.starts_with("http://127.0.0.1:"), "{ended_at}");
    login.finished().await.expect("logged in")
}

/// The program that a test starts several times.
pub(crate) fn worker() -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let built = own.parent().and_then(Path::parent).expect("target/debug");
    built.join("examples/login_worker")
}
