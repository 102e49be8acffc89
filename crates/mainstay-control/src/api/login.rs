//! A login that a person makes through the API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a login is begun. Without a body, every field has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginBeginning {
    /// Whether the client registers itself again at the authorization server, which has forgotten it. A login that waits is given up for it.
    #[serde(default)]
    pub register_again: bool,
}

/// How far a login to a server has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginProgress {
    /// How far it has come.
    pub state: LoginState,
    /// The address that the person opens in a browser, while the login waits for the person.
    pub address: Option<String>,
    /// Why the login failed, if it did.
    pub error: Option<String>,
    /// Whether the client registered itself before this login. If the authorization server has forgotten it, the browser says that the
    /// client is unknown, and a login with `register_again` helps.
    #[serde(default)]
    pub reuses_registration: bool,
}

/// How far a login has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoginState {
    /// No login was begun through this API since the program started.
    None,
    /// The server and its authorization server are being asked.
    Starting,
    /// The login waits for the person.
    Waiting,
    /// The person has logged in.
    LoggedIn,
    /// The login failed.
    Failed,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Where the browser was redirected to, if it runs on another machine.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginCallback {
    /// The address that the browser shows at the end: `http://127.0.0.1:PORT/callback?…`.
    pub address: String,
}
