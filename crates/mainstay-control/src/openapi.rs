//! The OpenAPI document, made from the types and from the paths below. A test compares it with real answers.

use std::sync::LazyLock;

use bytes::Bytes;
use utoipa::OpenApi;

/// The document, as it is served at `/api/v1/openapi.json`.
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// The document as JSON.
pub(crate) fn json() -> Bytes {
    static JSON: LazyLock<Bytes> = LazyLock::new(|| {
        let json = document().to_json();
        json.unwrap_or_default().into()
    });
    JSON.clone()
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Mainstay control API",
        description = "Watches and controls the MCP servers of one running Mainstay. Within version 1 fields, kinds of events \
                       and words may be added; none is removed or given another meaning.",
        license(name = "MIT OR Apache-2.0")
    ),
    paths(
        paths::program,
        paths::servers,
        paths::add,
        paths::server,
        paths::change,
        paths::remove,
        paths::catalog,
        paths::stderr,
        paths::restart,
        paths::refresh,
        paths::enable,
        paths::disable,
        paths::reload,
        paths::events,
        paths::watch,
        paths::sessions,
        paths::call,
        paths::ping,
        paths::record,
        paths::cancel_call,
        paths::begin_login,
        paths::login_progress,
        paths::login_callback,
        paths::ui,
        paths::openapi,
    ),
    components(schemas(crate::api::LagMarker, crate::api::StderrRecord, crate::api::EventRecord))
)]
struct Document;

/// What each path takes and answers. The functions carry the description only; `service::route` finds the real ones.
#[expect(
    dead_code,
    reason = "the attribute describes a path, and the function only carries it"
)]
mod paths {
    use crate::api::{
        ApiProblem, CallReport, CallRequest, CatalogDocument, EntryDocument, EventPage, LoginBeginning,
        LoginCallback, LoginProgress, PageLink, PingReport, ProgramStatus, RecordingDocument, RefreshReport,
        ReloadReport, ServerList, ServerStatus, SessionList, StderrPage,
    };

    /// The program as a whole.
    #[utoipa::path(get, path = "/api/v1", responses((status = 200, body = ProgramStatus)))]
    fn program() {}

    /// All servers with their status.
    #[utoipa::path(
        get,
        path = "/api/v1/servers",
        params(("processes" = Option<bool>, Query, description = "whether to look at the processes of servers (default: true)")),
        responses((status = 200, body = ServerList), (status = 400, body = ApiProblem))
    )]
    fn servers() {}

    /// Adds a server to the configuration file, and starts it.
    #[utoipa::path(
        post,
        path = "/api/v1/servers",
        request_body = EntryDocument,
        responses(
            (status = 200, body = ReloadReport),
            (status = 400, body = ApiProblem),
            (status = 409, body = ApiProblem),
            (status = 413, body = ApiProblem),
            (status = 422, body = ApiProblem),
            (status = 501, body = ApiProblem)
        )
    )]
    fn add() {}

    /// One server with its status.
    #[utoipa::path(
        get,
        path = "/api/v1/servers/{name}",
        params(("name" = String, Path)),
        responses((status = 200, body = ServerStatus), (status = 404, body = ApiProblem))
    )]
    fn server() {}

    /// Changes the entry of a server in the configuration file: each key of the body is set, or removed if it is `null`; all
    /// other keys stay.
    #[utoipa::path(
        patch,
        path = "/api/v1/servers/{name}",
        params(("name" = String, Path)),
        request_body = Object,
        responses(
            (status = 200, body = ReloadReport),
            (status = 400, body = ApiProblem),
            (status = 404, body = ApiProblem),
            (status = 413, body = ApiProblem),
            (status = 422, body = ApiProblem),
            (status = 501, body = ApiProblem)
        )
    )]
    fn change() {}

    /// Removes a server from the configuration file, and stops it.
    #[utoipa::path(
        delete,
        path = "/api/v1/servers/{name}",
        params(("name" = String, Path)),
        responses(
            (status = 200, body = ReloadReport),
            (status = 404, body = ApiProblem),
            (status = 422, body = ApiProblem),
            (status = 501, body = ApiProblem)
        )
    )]
    fn remove() {}

    /// What a server offers, as last listed.
    #[utoipa::path(
        get,
        path = "/api/v1/servers/{name}/catalog",
        params(("name" = String, Path)),
        responses((status = 200, body = CatalogDocument), (status = 404, body = ApiProblem))
    )]
    fn catalog() {}

    /// What a server wrote to stderr. With `follow=true` a stream of server-sent events: `line` with a `StderrRecord`, and
    /// `lagged` with a `LagMarker`.
    #[utoipa::path(
        get,
        path = "/api/v1/servers/{name}/stderr",
        params(
            ("name" = String, Path),
            ("lines" = Option<u64>, Query, description = "how many of the last lines (default: all that are kept)"),
            ("follow" = Option<bool>, Query, description = "go on with new lines")
        ),
        responses(
            (status = 200, body = StderrPage),
            (status = 400, body = ApiProblem),
            (status = 404, body = ApiProblem),
            (status = 429, body = ApiProblem)
        )
    )]
    fn stderr() {}

    /// Opens a new connection at once: skips the backoff and renews the budget.
    #[utoipa::path(
        post,
        path = "/api/v1/servers/{name}/restart",
        params(("name" = String, Path)),
        responses(
            (status = 200, body = ServerStatus),
            (status = 404, body = ApiProblem),
            (status = 409, body = ApiProblem)
        )
    )]
    fn restart() {}

    /// Lists again what a server offers, and answers when the listing has ended. Requests that come together share a listing. A server
    /// that rests is started; any other that is not connected is refused.
    #[utoipa::path(
        post,
        path = "/api/v1/servers/{name}/refresh",
        params(("name" = String, Path)),
        responses(
            (status = 200, body = RefreshReport),
            (status = 404, body = ApiProblem),
            (status = 408, body = ApiProblem),
            (status = 409, body = ApiProblem)
        )
    )]
    fn refresh() {}

    /// Wants a server connected. The choice outlives a restart of the program.
    #[utoipa::path(
        post,
        path = "/api/v1/servers/{name}/enable",
        params(("name" = String, Path)),
        responses(
            (status = 200, body = ServerStatus),
            (status = 404, body = ApiProblem),
            (status = 409, body = ApiProblem)
        )
    )]
    fn enable() {}

    /// Wants nothing of a server to run. The choice outlives a restart of the program.
    #[utoipa::path(
        post,
        path = "/api/v1/servers/{name}/disable",
        params(("name" = String, Path)),
        responses(
            (status = 200, body = ServerStatus),
            (status = 404, body = ApiProblem),
            (status = 409, body = ApiProblem)
        )
    )]
    fn disable() {}

    /// Reads the configuration file again and applies the difference.
    #[utoipa::path(
        post,
        path = "/api/v1/reload",
        responses(
            (status = 200, body = ReloadReport),
            (status = 422, body = ApiProblem),
            (status = 501, body = ApiProblem)
        )
    )]
    fn reload() {}

    /// The last events. With `Accept: text/event-stream` a stream of server-sent events: `record` with an `EventRecord`, and
    /// `lagged` with a `LagMarker`. Without `after` and `tail`, a page has the last 100, and a stream begins with the next.
    #[utoipa::path(
        get,
        path = "/api/v1/events",
        params(
            ("after" = Option<String>, Query, description = "continue after this event: its number, or INSTANCE.NUMBER"),
            ("tail" = Option<u64>, Query, description = "begin so many events before the end"),
            ("limit" = Option<u64>, Query, description = "how many events a page has at most"),
            ("server" = Option<String>, Query, description = "only the events of this server"),
            ("Last-Event-ID" = Option<String>, Header, description = "as `after`; sent by browsers that lost a stream")
        ),
        responses(
            (status = 200, body = EventPage),
            (status = 400, body = ApiProblem),
            (status = 404, body = ApiProblem),
            (status = 429, body = ApiProblem)
        )
    )]
    fn events() {}

    /// Everything that a view shows, as a stream of server-sent events. `snapshot` comes first, with `at_ms`, `program`
    /// (`ProgramStatus`), `servers` (`ServerStatus`), `sessions` (`SessionList`) and the last `events` (`EventRecord`). Then come
    /// `record` with an `EventRecord`, `lagged` with a `LagMarker`, `figures` once a second with `at_ms` and the `servers` that
    /// changed, and `sessions` when they change.
    #[utoipa::path(
        get,
        path = "/api/v1/watch",
        responses(
            (status = 200, body = String, content_type = "text/event-stream"),
            (status = 429, body = ApiProblem)
        )
    )]
    fn watch() {}

    /// The clients that have a session.
    #[utoipa::path(get, path = "/api/v1/sessions", responses((status = 200, body = SessionList)))]
    fn sessions() {}

    /// Calls a tool of a server, under the name that the server knows. A call that failed is answered with status 200 too: the
    /// answer says whether it may have run.
    #[utoipa::path(
        post,
        path = "/api/v1/servers/{name}/call",
        params(("name" = String, Path)),
        request_body = CallRequest,
        responses(
            (status = 200, body = CallReport),
            (status = 400, body = ApiProblem),
            (status = 404, body = ApiProblem),
            (status = 413, body = ApiProblem)
        )
    )]
    fn call() {}

    /// Pings the live connection of a server, and starts nothing. A server that does not answer is answered with status 200 too.
    #[utoipa::path(
        post,
        path = "/api/v1/servers/{name}/ping",
        params(
            ("name" = String, Path),
            ("timeout_ms" = Option<u64>, Query, description = "how long the answer may take: 5000 by default")
        ),
        responses(
            (status = 200, body = PingReport),
            (status = 400, body = ApiProblem),
            (status = 404, body = ApiProblem)
        )
    )]
    fn ping() {}

    /// The last messages of a server's connections, and those of connections that were lost. Payloads are there if the program
    /// records them and they are asked for.
    #[utoipa::path(
        get,
        path = "/api/v1/servers/{name}/record",
        params(
            ("name" = String, Path),
            ("payloads" = Option<bool>, Query, description = "whole messages, where they are recorded (default: false)")
        ),
        responses(
            (status = 200, body = RecordingDocument),
            (status = 400, body = ApiProblem),
            (status = 404, body = ApiProblem)
        )
    )]
    fn record() {}

    /// Cancels a call that waits for an answer. Its caller gets an error, the server a cancellation, and the connection stays.
    #[utoipa::path(
        post,
        path = "/api/v1/servers/{name}/calls/{id}/cancel",
        params(("name" = String, Path), ("id" = String, Path, description = "the id of the call, as the status of the server has it")),
        responses(
            (status = 200, body = ServerStatus),
            (status = 404, body = ApiProblem),
            (status = 409, body = ApiProblem)
        )
    )]
    fn cancel_call() {}

    /// Begins a login to a server, or finds the one that waits. The person opens `address` in a browser on the machine of the
    /// program; then the server connects by itself. If the browser says that the client is unknown, begin it with `register_again`.
    #[utoipa::path(
        post,
        path = "/api/v1/servers/{name}/login",
        params(("name" = String, Path)),
        request_body = Option<LoginBeginning>,
        responses(
            (status = 200, body = LoginProgress),
            (status = 400, body = ApiProblem),
            (status = 404, body = ApiProblem),
            (status = 408, body = ApiProblem),
            (status = 409, body = ApiProblem)
        )
    )]
    fn begin_login() {}

    /// How far the last login has come.
    #[utoipa::path(
        get,
        path = "/api/v1/servers/{name}/login",
        params(("name" = String, Path)),
        responses((status = 200, body = LoginProgress), (status = 404, body = ApiProblem))
    )]
    fn login_progress() {}

    /// Takes the address that the browser ended at, if the browser runs on another machine and cannot load it.
    #[utoipa::path(
        post,
        path = "/api/v1/servers/{name}/login/callback",
        params(("name" = String, Path)),
        request_body = LoginCallback,
        responses(
            (status = 200, body = LoginProgress),
            (status = 400, body = ApiProblem),
            (status = 404, body = ApiProblem),
            (status = 409, body = ApiProblem),
            (status = 413, body = ApiProblem)
        )
    )]
    fn login_callback() {}

    /// A link that opens the dashboard, logged in. It works once.
    #[utoipa::path(
        post,
        path = "/api/v1/ui",
        responses((status = 200, body = PageLink), (status = 501, body = ApiProblem))
    )]
    fn ui() {}

    /// This document.
    #[utoipa::path(get, path = "/api/v1/openapi.json", responses((status = 200, body = Object)))]
    fn openapi() {}
}
