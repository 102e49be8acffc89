//! What belongs to the client that makes a request: its tasks, and the calls that wait for its answer.

use std::sync::Arc;

use mainstay::config::{HttpTarget, ServerBuilder};
use mainstay::{Era, Fleet, ServerConfig};
use mainstay_gateway::{Gateway, HttpDoor};
use mainstay_testkit::client::{Ask, LONG, Reply};
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::{Fault, Rule, Script, Speaks, Step};
use serde_json::{Value, json};

use crate::http::support::{Memory, World, initialize, modern, request, text};

const RELATED: &str = "io.modelcontextprotocol/related-task";

const ABOUT_A_TASK: [&str; 4] = ["tasks/get", "tasks/result", "tasks/cancel", "tasks/update"];

/// A client that shows a token, or none; in a session, or without one.
struct Client<'a> {
    world: &'a World,
    path: &'static str,
    token: Option<&'static str>,
    session: Option<String>,
}

impl<'a> Client<'a> {
    async fn legacy(world: &'a World, path: &'static str, token: Option<&'static str>) -> Self {
        Self::declaring(json!({}), world, path, token).await
    }

    /// A legacy client with these capabilities.
    async fn declaring(
        capabilities: Value,
        world: &'a World,
        path: &'static str,
        token: Option<&'static str>,
    ) -> Self {
        let mut client = Self::modern(world, path, token);
        let opened = client.signed(Ask::post(path, &initialize(capabilities)));
        let opened = world.send(opened).await;
        client.session = Some(opened.header("mcp-session-id").expect("a session").to_owned());
        client
    }

    fn modern(world: &'a World, path: &'static str, token: Option<&'static str>) -> Self {
        Self {
            world,
            path,
            token,
            session: None,
        }
    }

    fn signed(&self, ask: Ask) -> Ask {
        let ask = match self.token {
            Some(token) => ask.header("authorization", &format!("Bearer {token}")),
            None => ask,
        };
        match &self.session {
            Some(session) => ask
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-11-25"),
            None => ask,
        }
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        let ask = match self.session {
            Some(_) => Ask::post(self.path, &request(7, method, params)),
            None => modern(self.path, 7, method, params),
        };
        self.world.send(self.signed(ask)).await.json().await
    }

    /// Opens the standing stream.
    async fn listen(&self) -> Reply {
        let get = Ask::new("GET", self.path).header("accept", "text/event-stream");
        self.world.send(self.signed(get)).await
    }

    /// Ends the session.
    async fn end(&self) {
        let ended = self.signed(Ask::new("DELETE", self.path));
        assert_eq!(self.world.send(ended).await.status, 204);
    }

    /// Receives a question about a task of this id on this stream, and answers it.
    async fn answers(&self, stream: &mut Reply, task: &str) {
        let asked = stream.message().await;
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        assert_eq!(asked["params"]["_meta"][RELATED]["taskId"], task, "{asked}");
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } });
        let answer = self.signed(Ask::post(self.path, &answer));
        assert_eq!(self.world.send(answer).await.status, 202);
    }

    /// Begins a task, and returns its id.
    async fn begin(&self) -> String {
        let name = match self.path {
            "/mcp" => "one__echo",
            _one => "echo",
        };
        let mut call = json!({ "name": name, "arguments": {} });
        if self.session.is_some() {
            call["task"] = json!({});
        }
        let begun = self.ask("tools/call", call).await["result"].clone();
        let task = begun.get("task").unwrap_or(&begun);
        task["taskId"].as_str().expect("a task").to_owned()
    }

    async fn has(&self, id: &str) -> bool {
        let got = self.ask("tasks/get", json!({ "taskId": id })).await;
        got["result"]["taskId"] == json!(id)
    }

    /// Checks that this client gets the same error for this task as for an unknown one, without a request to the server.
    async fn is_refused(&self, id: &str) {
        let side = self.world.server.side();
        for method in ABOUT_A_TASK {
            let before = side.total();
            let mut received = Vec::new();
            for asked in [id, "never-was"] {
                let params = json!({ "taskId": asked, "inputResponses": {} });
                let error = self.ask(method, params).await["error"].clone();
                assert_eq!(error["code"], -32602, "{method} {asked}: {error}");
                received.push(error.to_string().replace(&format!("task {asked}\""), "task ID\""));
            }
            assert_eq!(received[0], received[1], "{method}");
            assert_eq!(side.total(), before, "{method}");
        }
    }
}

/// A server that begins the same task by each call.
fn working(speaks: Speaks) -> Script {
    let task = json!({ "taskId": "t", "status": "working" });
    let flat = json!({ "taskId": "t", "status": "working", "resultType": "task" });
    let begun = match speaks {
        Speaks::Modern => flat,
        _legacy => json!({ "task": task }),
    };
    let answering =
        |method: &str, result: Value| Rule::new(Step::of(method), Fault::Result(result)).method(method);
    let secret = json!([{ "type": "text", "text": "secret" }]);
    Script {
        speaks,
        capabilities: Some(json!({
            "tools": {},
            "tasks": { "list": {}, "cancel": {} },
            "extensions": { "io.modelcontextprotocol/tasks": {} },
        })),
        rules: vec![
            answering("tools/call", begun),
            answering("tasks/get", task.clone()),
            answering("tasks/cancel", task.clone()),
            answering("tasks/update", json!({})),
            answering("tasks/result", json!({ "content": secret })),
            answering("tasks/list", json!({ "tasks": [task] })),
        ],
        ..Script::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_of_one_session_is_unknown_to_every_other() {
    let world = World::with(HttpDoor::new(), working(Speaks::Legacy)).await;
    for path in ["/mcp", "/mcp/one"] {
        let owner = Client::legacy(&world, path, None).await;
        let other = Client::legacy(&world, path, None).await;
        let id = owner.begin().await;
        assert_ne!(id, "t");
        other.is_refused(&id).await;
        other.is_refused("t").await;
        Client::modern(&world, path, None).is_refused(&id).await;
        let list = other.ask("tasks/list", json!({})).await;
        assert_eq!(list["result"]["tasks"], json!([]), "{list}");
        let list = owner.ask("tasks/list", json!({})).await;
        assert_eq!(
            list["result"]["tasks"],
            json!([{ "taskId": id, "status": "working" }])
        );
        assert!(owner.has(&id).await);
        let result = owner.ask("tasks/result", json!({ "taskId": id })).await;
        assert_eq!(text(&result), "secret");
        // The same task, which the other began too, has another id.
        let own = other.begin().await;
        assert_ne!(own, id);
        assert!(other.has(&own).await);
        owner.is_refused(&own).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_belongs_to_its_token_in_every_session_and_era() {
    let door = HttpDoor::new().token("first").token("second");
    let world = World::with(door, working(Speaks::Legacy)).await;
    for path in ["/mcp", "/mcp/one"] {
        let id = Client::legacy(&world, path, Some("first")).await.begin().await;
        let again = Client::legacy(&world, path, Some("first")).await;
        assert!(again.has(&id).await);
        let list = again.ask("tasks/list", json!({})).await;
        assert_eq!(list["result"]["tasks"][0]["taskId"], json!(id));
        assert!(Client::modern(&world, path, Some("first")).has(&id).await);
        Client::modern(&world, path, Some("second")).is_refused(&id).await;
        let other = Client::legacy(&world, path, Some("second")).await;
        other.is_refused(&id).await;
        let list = other.ask("tasks/list", json!({})).await;
        assert_eq!(list["result"]["tasks"], json!([]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_without_a_token_has_its_task_by_the_id_alone_and_no_list() {
    let world = World::with(HttpDoor::new(), working(Speaks::Modern)).await;
    for path in ["/mcp", "/mcp/one"] {
        let client = Client::modern(&world, path, None);
        let id = client.begin().await;
        assert!(Client::modern(&world, path, None).has(&id).await);
        for guessed in ["t", "one/t", &id[..id.len() - 1]] {
            client.is_refused(guessed).await;
        }
        let list = client.ask("tasks/list", json!({})).await;
        assert_eq!(list["error"]["code"], -32601);
        let discovered = client.ask("server/discover", json!({})).await;
        let offered = &discovered["result"]["capabilities"]["tasks"];
        assert_eq!(offered.get("list"), None, "{discovered}");
        Client::legacy(&world, path, None).await.is_refused(&id).await;
    }
    assert_eq!(world.server.side().count("tasks/list"), 0);
}

fn asking() -> Value {
    json!({ "name": "ask", "arguments": { "kind": "elicitation", "extra": { "x": 1, "y": [2] } } })
}

/// The retry of a call, with an answer.
fn retry(call: &Value, input_required: &Value) -> Value {
    let (question, _) = input_required["result"]["inputRequests"]
        .as_object()
        .expect("a question")
        .iter()
        .next()
        .expect("a question");
    let mut retry = call.clone();
    retry["requestState"] = input_required["result"]["requestState"].clone();
    retry["inputResponses"] = json!({ question: { "action": "accept", "content": { "name": "Ada" } } });
    retry
}

#[tokio::test(start_paused = true)]
async fn a_request_state_is_good_for_its_client_address_method_and_parameters_alone() {
    let servers = [(); 2].map(|()| Memory::new(Script::new().speaks(Speaks::Legacy)));
    let configs = ["one", "two"].into_iter().zip(&servers);
    let configs =
        configs.map(|(name, server)| ServerConfig::custom(name, name, server.clone()).build().unwrap());
    let gateway = Gateway::start(Fleet::builder(), configs);
    for server in gateway.fleet().servers() {
        server.wait_connected(LONG).await.expect("connected");
    }
    let door = HttpDoor::new().token("first").token("second");
    let world = World::serving(door, gateway);
    let client = Client::modern(&world, "/mcp/one", Some("first"));
    let input_required = client.ask("tools/call", asking()).await;
    assert_eq!(input_required["result"]["resultType"], "input_required");
    let retried = retry(&asking(), &input_required);
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut params = retried.clone();
        change(&mut params);
        params
    };
    let elsewhere = |path, token| Client::modern(&world, path, Some(token));
    for (what, client, method, params) in [
        (
            "another server",
            elsewhere("/mcp/two", "first"),
            "tools/call",
            retried.clone(),
        ),
        (
            "the union",
            elsewhere("/mcp", "first"),
            "tools/call",
            changed(&|params| params["name"] = json!("one__ask")),
        ),
        (
            "another client",
            elsewhere("/mcp/one", "second"),
            "tools/call",
            retried.clone(),
        ),
        (
            "another tool",
            elsewhere("/mcp/one", "first"),
            "tools/call",
            changed(&|params| params["name"] = json!("echo")),
        ),
        (
            "other arguments",
            elsewhere("/mcp/one", "first"),
            "tools/call",
            changed(&|params| params["arguments"]["extra"]["y"] = json!([3])),
        ),
        (
            "another method",
            elsewhere("/mcp/one", "first"),
            "prompts/get",
            retried.clone(),
        ),
    ] {
        let refused = client.ask(method, params).await;
        assert_eq!(refused["error"]["code"], -32602, "{what}: {refused}");
    }
    assert_eq!(
        servers[0].side().count("tools/call"),
        1,
        "no call but the one that waits"
    );
    assert_eq!(servers[1].side().count("tools/call"), 0);
    let respelt = r#"{"arguments":{"extra":{"y":[2],"x":1},"kind":"elicitati\u006fn"},"name":"ask"}"#;
    let mut again: Value = serde_json::from_str(respelt).unwrap();
    again["requestState"] = retried["requestState"].clone();
    again["inputResponses"] = retried["inputResponses"].clone();
    let done = client.ask("tools/call", again).await;
    assert!(text(&done).contains("Ada"), "{done}");
}

/// A gateway whose only server, `inner`, is at this address of another one.
async fn before(inner: &World, path: &str) -> World {
    let url = format!("http://{}{path}", inner.door);
    in_front_of(ServerConfig::http("inner", url)).await
}

async fn in_front_of(inner: ServerBuilder<HttpTarget>) -> World {
    let config = inner.build().unwrap();
    let gateway = Gateway::start(Fleet::builder(), [config]);
    let handle = gateway.fleet().server("inner").unwrap();
    handle.wait_connected(LONG).await.expect("connected");
    World::serving(HttpDoor::new(), gateway)
}

#[tokio::test]
async fn a_question_passes_through_two_gateways_in_both_eras() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let inner = World::on_a_port(HttpDoor::new(), Script::new().speaks(speaks)).await;
        for (path, tool) in [("/mcp/one", "ask"), ("/mcp", "one__ask")] {
            let outer = before(&inner, path).await;
            for (path, tool) in [
                ("/mcp/inner", tool.to_owned()),
                ("/mcp", format!("inner__{tool}")),
            ] {
                let call = json!({ "name": tool, "arguments": { "kind": "elicitation" } });
                let client = Client::modern(&outer, path, None);
                let input_required = client.ask("tools/call", call.clone()).await;
                let retried = retry(&call, &input_required);
                let done = client.ask("tools/call", retried).await;
                assert!(text(&done).contains("Ada"), "{speaks:?} {path}: {done}");

                let session = outer.session(path).await;
                let mut reply = session.ask(1, "tools/call", call).await;
                let asked = reply.message().await;
                assert_eq!(asked["method"], "elicitation/create", "{asked}");
                let answer = json!({ "action": "accept", "content": { "name": "Bob" } });
                let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer });
                assert_eq!(session.post(&answer).await.status, 202);
                let done = reply.message().await;
                assert!(text(&done).contains("Bob"), "{speaks:?} {path}: {done}");
            }
        }
    }
}

#[tokio::test]
async fn tasks_pass_through_two_gateways_and_stay_their_client_s() {
    let inner = World::on_a_port(HttpDoor::new(), working(Speaks::Modern)).await;
    // Tasks pass between two sides of one era.
    let url = format!("http://{}/mcp", inner.door);
    let outer = in_front_of(ServerConfig::http("inner", url).era(Era::Modern)).await;
    let call = json!({ "name": "one__echo", "arguments": {} });
    let begun = outer
        .send(modern("/mcp/inner", 1, "tools/call", call))
        .await
        .json()
        .await;
    let id = begun["result"]["taskId"].as_str().expect("a task").to_owned();
    assert!(Client::modern(&outer, "/mcp/inner", None).has(&id).await);
    for other in ["t", "one/t"] {
        assert!(
            !Client::modern(&outer, "/mcp/inner", None).has(other).await,
            "{other}"
        );
    }
    let (of_inner, _) = id.rsplit_once('~').expect("sealed");
    assert!(
        Client::modern(&inner, "/mcp", None).has(of_inner).await,
        "the inner's own id"
    );
    assert!(!Client::modern(&outer, "/mcp/inner", None).has(of_inner).await);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_call_takes_the_stream_the_progress_token_and_the_log_level_of_its_retry() {
    let script = Script::new()
        .speaks(Speaks::Legacy)
        .on(Step::Call, Fault::NoAnswer);
    let world = Arc::new(World::with(HttpDoor::new(), script).await);
    let side = world.server.side();
    for (n, first) in [json!({}), json!({ "progressToken": "first" })]
        .into_iter()
        .enumerate()
    {
        let call = json!({ "name": "echo", "arguments": {} });
        let mut asked = call.clone();
        asked["_meta"] = first;
        let calling = tokio::spawn({
            let world = world.clone();
            async move {
                world
                    .send(modern("/mcp/one", 1, "tools/call", asked))
                    .await
                    .json()
                    .await
            }
        });
        side.wait_for("tools/call", n + 1).await;
        let received = side.received();
        let sent = received.iter().rfind(|message| message.method() == "tools/call");
        let (number, params) = sent.map(|sent| (sent.id(), sent.params())).expect("it came");
        let question = json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {} });
        side.inject_message(&question).await;
        let input_required = calling.await.unwrap();

        let mut retried = retry(&call, &input_required);
        retried["_meta"] = json!({ "progressToken": "again", "io.modelcontextprotocol/logLevel": "debug" });
        let retrying = tokio::spawn({
            let world = world.clone();
            async move { world.send(modern("/mcp/one", 2, "tools/call", retried)).await }
        });
        side.wait_for("", n + 1).await;
        assert_eq!(
            side.last_params("logging/setLevel").expect("a level")["level"],
            "debug"
        );
        let log = json!({ "level": "debug", "data": "late" });
        let progress = json!({ "progressToken": params["_meta"]["progressToken"], "progress": 1 });
        for (method, params) in [("message", log), ("progress", progress)] {
            let method = format!("notifications/{method}");
            side.inject_message(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
                .await;
        }
        let result = json!({ "jsonrpc": "2.0", "id": number, "result": { "content": [] } });
        let mut reply = retrying.await.unwrap();
        let mut received = Vec::new();
        while received.len() < 2 {
            let message = reply.message().await;
            if message["params"]["data"] != "level set" {
                received.push(message["params"].clone());
            }
        }
        received.sort_by_key(|params| params.get("progress").is_some());
        assert_eq!(received[0]["data"], "late");
        assert_eq!(received[1], json!({ "progressToken": "again", "progress": 1 }));
        side.inject_message(&result).await;
        assert_eq!(reply.message().await["id"], 2);
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_task_reaches_every_session_of_its_client_though_one_of_them_calls() {
    let mut script = working(Speaks::Legacy);
    let silent = Rule::new(Step::of("resources/read"), Fault::NoAnswer).method("resources/read");
    script.rules.push(silent);
    let world = World::with(HttpDoor::new().token("alpha").token("beta"), script).await;
    let [calling, waiting] = [(); 2].map(|()| Client::legacy(&world, "/mcp/one", Some("alpha")));
    let (calling, waiting) = (calling.await, waiting.await);
    let stranger = Client::legacy(&world, "/mcp/one", Some("beta")).await;
    let mut standing = waiting.listen().await;
    let mut foreign = stranger.listen().await;
    let task = calling.begin().await;
    let read = request(8, "resources/read", json!({ "uri": "mem://one" }));
    let read = calling.signed(Ask::post("/mcp/one", &read));
    let side = world.server.side();
    let status = async {
        side.wait_for("resources/read", 1).await;
        let params = json!({ "taskId": "t", "status": "completed" });
        let status = json!({ "jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params });
        side.inject_message(&status).await;
    };
    let (mut running, ()) = tokio::join!(world.send(read), status);
    for (stream, id) in [(&mut running, &task), (&mut standing, &task)] {
        let received = stream.message().await;
        assert_eq!(received["method"], "notifications/tasks/status");
        assert_eq!(
            (&received["params"]["taskId"], &received["params"]["status"]),
            (&json!(id), &json!("completed"))
        );
    }
    stranger.end().await;
    assert_eq!(foreign.event().await, None, "it began no task");
}

/// A message of the server that belongs to the task of `working`.
fn for_task(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({ RELATED: { "taskId": "t" } });
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// Asks for something that belongs to the task, and returns what is answered once it is.
async fn ask_for_task(side: &MemoryServer) -> impl Future<Output = Value> + use<> {
    let answers = side.count("");
    let form = json!({ "message": "?", "requestedSchema": { "type": "object" } });
    let mut question = for_task("elicitation/create", form);
    question["id"] = json!(format!("q{answers}"));
    side.inject_message(&question).await;
    let side = side.clone();
    async move {
        side.wait_for("", answers + 1).await;
        let received = side.received();
        let answer = received.iter().rev().find(|message| message.method().is_empty());
        answer.expect("an answer").outcome().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_sends_for_a_task_is_for_the_session_that_began_it_whichever_its_token_has() {
    let mut script = working(Speaks::Legacy);
    let slow = Rule::new(Step::of("resources/read"), Fault::NoAnswer).method("resources/read");
    script.rules.push(slow);
    let world = World::with(HttpDoor::new().token("alpha"), script).await;
    let open = |capabilities| Client::declaring(capabilities, &world, "/mcp/one", Some("alpha"));
    let can = json!({ "elicitation": {} });
    let before = open(can.clone()).await;
    let beginner = open(can.clone()).await;
    let (mut of_before, mut standing) = (before.listen().await, beginner.listen().await);
    let task = beginner.begin().await;
    let (able, unable) = (open(can).await, open(json!({})).await);
    let (mut of_able, mut of_unable) = (able.listen().await, unable.listen().await);
    let side = world.server.side();
    let read = request(8, "resources/read", json!({ "uri": "mem://one" }));
    let read = before.signed(Ask::post("/mcp/one", &read));
    let during_a_call = async {
        side.wait_for("resources/read", 1).await;
        let answered = ask_for_task(&side).await;
        beginner.answers(&mut standing, &task).await;
        assert_eq!(answered.await["result"]["action"], "decline");
        let log = json!({ "level": "error", "data": "of the task" });
        side.inject_message(&for_task("notifications/message", log)).await;
        let logged = standing.message().await;
        assert_eq!(logged["params"]["data"], "of the task", "{logged}");
        before.end().await;
    };
    tokio::join!(world.send(read), during_a_call);
    for (session, stream) in [(&able, &mut of_able), (&unable, &mut of_unable)] {
        session.end().await;
        assert_eq!(stream.event().await, None, "it began no task");
    }
    assert_eq!(of_before.event().await, None, "it began no task");
}

#[tokio::test(start_paused = true)]
async fn a_question_for_the_task_of_a_session_that_is_gone_is_for_another_of_its_token_that_can_answer() {
    for has_left in [true, false] {
        let world = World::with(HttpDoor::new().token("alpha"), working(Speaks::Legacy)).await;
        let open = |capabilities| Client::declaring(capabilities, &world, "/mcp/one", Some("alpha"));
        let can = json!({ "elicitation": {} });
        // It opens no stream: nothing reaches it, also while it is there.
        let beginner = open(can.clone()).await;
        let task = beginner.begin().await;
        if has_left {
            beginner.end().await;
        }
        let (able, deaf, unable) = (open(can.clone()).await, open(can).await, open(json!({})).await);
        let (mut of_able, _of_unable) = (able.listen().await, unable.listen().await);
        let side = world.server.side();
        let answered = ask_for_task(&side).await;
        able.answers(&mut of_able, &task).await;
        assert_eq!(answered.await["result"]["action"], "decline");

        let declined = async |why: &str| {
            let declined = ask_for_task(&side).await.await;
            let words = declined["error"]["message"].as_str().expect("an error");
            assert!(words.contains(why), "{words}");
        };
        able.end().await;
        declined("the client cannot be reached").await;
        deaf.end().await;
        if !has_left {
            beginner.end().await;
        }
        declined("the client does not declare elicitation").await;
        unable.end().await;
        declined("the client that began the task is gone").await;
    }
}
