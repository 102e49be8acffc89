//! The client that the tests use, and the servers that they give it.

use std::time::Duration;

use mainstay::ServerConfig;
use mainstay_rmcp::Supervised;
use mainstay_testkit::{FaultyServer, program};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, CreateMessageRequestParams,
    CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction, Implementation,
    ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion, Root,
    SamplingMessage,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext,
    RunningService,
};
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceError};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longer than any step of a test takes on a busy machine.
pub(crate) const LIMIT: Duration = mainstay_testkit::poll::LIMIT;

pub(crate) type Client = RunningService<RoleClient, Handler>;

/// The ways in which rmcp's client begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    Legacy,
    Modern,
    /// It finds out the era, and finds the modern one.
    Auto,
}

impl Begins {
    pub(crate) const ALL: [Self; 3] = [Self::Legacy, Self::Modern, Self::Auto];

    fn lifecycle(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Legacy => ClientLifecycleMode::Initialize,
            Self::Modern => ClientLifecycleMode::Discover { preferred_versions },
            Self::Auto => ClientLifecycleMode::Auto {
                preferred_versions,
                legacy_version: None,
            },
        }
    }
}

/// A notification that the client received.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Notified {
    Progress(f64),
    Logged(Value),
    ToolsChanged,
}

/// Answers what servers ask, and passes notifications to the test.
#[derive(Debug)]
pub(crate) struct Handler(mpsc::UnboundedSender<Notified>);

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(Default::default());
        capabilities.sampling = Some(Default::default());
        capabilities.elicitation = Some(Default::default());
        ClientConfig::new(capabilities, Implementation::new("test-client", "7.8.9"))
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let message = SamplingMessage::assistant_text("a sampled answer");
        Ok(CreateMessageResult::new(message, "a-model".to_owned()))
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///home/ada")]))
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let content = json!({ "username": "ada", "email": "ada@example.org" });
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let _ = self.0.send(Notified::Progress(params.progress));
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let _ = self.0.send(Notified::Logged(params.data));
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let _ = self.0.send(Notified::ToolsChanged);
    }
}

/// The notifications of one client, in the order of their arrival.
pub(crate) struct Notifications(mpsc::UnboundedReceiver<Notified>);

impl Notifications {
    pub(crate) async fn next(&mut self) -> Notified {
        let next = timeout(LIMIT, self.0.recv()).await;
        next.expect("a notification in time").expect("a client")
    }
}

pub(crate) async fn connect(begins: Begins, server: Supervised) -> (Client, Notifications) {
    let (client, notifications) = try_connect(begins, server).await;
    (client.expect("connect"), notifications)
}

pub(crate) async fn try_connect(
    begins: Begins,
    server: Supervised,
) -> (Result<Client, ClientInitializeError>, Notifications) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let client = Handler(sender).serve_with_lifecycle(server, begins.lifecycle());
    let client = timeout(LIMIT, client).await.expect("an answer in time");
    (client, Notifications(receiver))
}

/// Closes the client and waits for the end of its server.
pub(crate) async fn close(client: Client) {
    let closed = timeout(LIMIT, client.cancel()).await;
    closed.expect("an end in time").expect("an end without a panic");
}

pub(crate) async fn call(
    client: &Client,
    tool: &'static str,
    arguments: Value,
) -> Result<CallToolResult, ServiceError> {
    let answer = client.call_tool(params(tool, arguments));
    timeout(LIMIT, answer).await.expect("an answer in time")
}

pub(crate) async fn call_text(client: &Client, tool: &'static str, arguments: Value) -> String {
    text(&call(client, tool, arguments).await.expect("a result"))
}

pub(crate) fn params(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object: {arguments}");
    };
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

pub(crate) fn text(result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| block.as_text());
    texts.map(|block| block.text.as_str()).collect()
}

/// The server of the workspace on rmcp, with tools that take time, and one that tells its process id.
pub(crate) fn rmcp_server() -> ServerConfig {
    partner("rmcp-server")
}

/// The server of the workspace on rmcp that asks its client.
pub(crate) fn asking_server() -> ServerConfig {
    partner("conformance-server")
}

fn partner(name: &str) -> ServerConfig {
    let config = ServerConfig::stdio("partner", program("mainstay-partner", name));
    config.build().expect("a valid server")
}

/// A scripted server, with a mark in its environment that finds its processes.
pub(crate) fn scripted(server: &FaultyServer, mark: &str) -> ServerConfig {
    let config = ServerConfig::stdio("scripted", server.command()).args(server.args());
    let config = config.env("TESTKIT_MARK", mark).build();
    config.expect("a valid server")
}
