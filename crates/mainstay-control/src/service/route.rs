//! What the method and the path of a request ask for.

use std::borrow::Cow;

use hyper::Method;
use percent_encoding::percent_decode_str;

use super::API_ROOT;
use crate::api::{ApiProblem, ProblemKind};
use crate::control::PersonCommand;

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ApiRoute {
    Program,
    OpenApi,
    Servers,
    Add,
    Server(String),
    Change(String),
    Remove(String),
    Catalog(String),
    Stderr(String),
    Command(String, PersonCommand),
    Reload,
    Events,
    Watch,
    Sessions,
    Call(String),
    Ping(String),
    Refresh(String),
    Record(String),
    CancelCall(String, String),
    BeginLogin(String),
    LoginProgress(String),
    LoginCallback(String),
    Page,
}

impl ApiRoute {
    pub(super) fn of(method: &Method, path: &str) -> Result<Self, ApiProblem> {
        let nothing = || {
            let title = format!("there is nothing at {}", shown(path));
            ApiProblem::new(ProblemKind::NotFound, title)
                .remedy(format!("{API_ROOT}/openapi.json lists all paths"))
        };
        let below = path.strip_prefix(API_ROOT).ok_or_else(nothing)?;
        let segments: Vec<&str> = below.split('/').filter(|segment| !segment.is_empty()).collect();
        let get = |route: Self| allowed(method, &[(&Method::GET, route)]);
        let post = |route: Self| allowed(method, &[(&Method::POST, route)]);
        match segments.as_slice() {
            [] => get(Self::Program),
            ["openapi.json"] => get(Self::OpenApi),
            ["events"] => get(Self::Events),
            ["sessions"] => get(Self::Sessions),
            ["watch"] => get(Self::Watch),
            ["ui"] => post(Self::Page),
            ["reload"] => post(Self::Reload),
            ["servers"] => allowed(method, &[(&Method::GET, Self::Servers), (&Method::POST, Self::Add)]),
            ["servers", name] => {
                let name = decoded(name)?;
                allowed(
                    method,
                    &[
                        (&Method::GET, Self::Server(name.clone())),
                        (&Method::PATCH, Self::Change(name.clone())),
                        (&Method::DELETE, Self::Remove(name)),
                    ],
                )
            }
            ["servers", name, "catalog"] => get(Self::Catalog(decoded(name)?)),
            ["servers", name, "stderr"] => get(Self::Stderr(decoded(name)?)),
            ["servers", name, "call"] => post(Self::Call(decoded(name)?)),
            ["servers", name, "ping"] => post(Self::Ping(decoded(name)?)),
            ["servers", name, "refresh"] => post(Self::Refresh(decoded(name)?)),
            ["servers", name, "record"] => get(Self::Record(decoded(name)?)),
            ["servers", name, "calls", call, "cancel"] => post(Self::CancelCall(decoded(name)?, decoded(call)?)),
            ["servers", name, "login"] => {
                let name = decoded(name)?;
                allowed(
                    method,
                    &[
                        (&Method::GET, Self::LoginProgress(name.clone())),
                        (&Method::POST, Self::BeginLogin(name)),
                    ],
                )
            }
            ["servers", name, "login", "callback"] => post(Self::LoginCallback(decoded(name)?)),
            ["servers", name, "restart"] => post(Self::Command(decoded(name)?, PersonCommand::Restart)),
            ["servers", name, "enable"] => post(Self::Command(decoded(name)?, PersonCommand::Enable)),
            ["servers", name, "disable"] => post(Self::Command(decoded(name)?, PersonCommand::Disable)),
            ["servers", ..] => Err(nothing().remedy(
                "encode a slash in the name of a server as %2F; a server has /catalog, /stderr, /record, /call, /ping, \
                 /login, /restart, /refresh, /enable and /disable",
            )),
            _other => Err(nothing()),
        }
    }
}

/// The route of this method.
fn allowed(method: &Method, routes: &[(&Method, ApiRoute)]) -> Result<ApiRoute, ApiProblem> {
    // A HEAD request is a GET without the body, which hyper leaves out.
    let wanted = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    let found = routes.iter().find(|(own, _)| *own == wanted);
    let methods: Vec<&str> = routes.iter().map(|(own, _)| own.as_str()).collect();
    match found {
        Some((_, route)) => Ok(route.copied()),
        None => {
            let title = format!("this path has no method {}", shown(method.as_str()));
            let problem = ApiProblem::new(ProblemKind::MethodNotAllowed, title);
            Err(problem.remedy(format!("use {}", methods.join(", "))))
        }
    }
}

impl ApiRoute {
    fn copied(&self) -> Self {
        match self {
            Self::Program => Self::Program,
            Self::OpenApi => Self::OpenApi,
            Self::Servers => Self::Servers,
            Self::Add => Self::Add,
            Self::Server(name) => Self::Server(name.clone()),
            Self::Change(name) => Self::Change(name.clone()),
            Self::Remove(name) => Self::Remove(name.clone()),
            Self::Catalog(name) => Self::Catalog(name.clone()),
            Self::Stderr(name) => Self::Stderr(name.clone()),
            Self::Command(name, command) => Self::Command(name.clone(), *command),
            Self::Reload => Self::Reload,
            Self::Events => Self::Events,
            Self::Watch => Self::Watch,
            Self::Sessions => Self::Sessions,
            Self::Call(name) => Self::Call(name.clone()),
            Self::Ping(name) => Self::Ping(name.clone()),
            Self::Refresh(name) => Self::Refresh(name.clone()),
            Self::Record(name) => Self::Record(name.clone()),
            Self::CancelCall(name, call) => Self::CancelCall(name.clone(), call.clone()),
            Self::BeginLogin(name) => Self::BeginLogin(name.clone()),
            Self::LoginProgress(name) => Self::LoginProgress(name.clone()),
            Self::LoginCallback(name) => Self::LoginCallback(name.clone()),
            Self::Page => Self::Page,
        }
    }
}

/// The name of a server in a path.
fn decoded(segment: &str) -> Result<String, ApiProblem> {
    let decoded = percent_decode_str(segment).decode_utf8();
    decoded.map(Cow::into_owned).map_err(|_| {
        let title = "the name in the path is not percent-encoded UTF-8";
        ApiProblem::new(ProblemKind::BadRequest, title).at(shown(segment))
    })
}

/// Text of a client that stands in a message: bounded, on one line.
pub(super) fn shown(text: &str) -> String {
    mainstay::gateway::PlainText::line(text).cut(100).into_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn paths_and_methods_find_their_routes() {
        let server = |name: &str| ApiRoute::Server(name.to_owned());
        for (method, path, route) in [
            ("GET", "/api/v1", ApiRoute::Program),
            ("GET", "/api/v1/", ApiRoute::Program),
            ("GET", "/api/v1/servers", ApiRoute::Servers),
            ("HEAD", "/api/v1/servers", ApiRoute::Servers),
            ("POST", "/api/v1/servers", ApiRoute::Add),
            ("GET", "/api/v1/servers/files", server("files")),
            (
                "GET",
                "/api/v1/servers/io.example%2Fone",
                server("io.example/one"),
            ),
            ("GET", "/api/v1/servers/caf%C3%A9", server("café")),
            ("DELETE", "/api/v1/servers/a", ApiRoute::Remove("a".to_owned())),
            (
                "POST",
                "/api/v1/servers/restart/restart",
                ApiRoute::Command("restart".to_owned(), PersonCommand::Restart),
            ),
        ] {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            assert_eq!(ApiRoute::of(&method, path), Ok(route), "{method} {path}");
        }
    }

    /// Its place among all routes.
    fn number(route: &ApiRoute) -> usize {
        match route {
            ApiRoute::Program => 0,
            ApiRoute::OpenApi => 1,
            ApiRoute::Servers => 2,
            ApiRoute::Add => 3,
            ApiRoute::Server(_) => 4,
            ApiRoute::Change(_) => 5,
            ApiRoute::Remove(_) => 6,
            ApiRoute::Catalog(_) => 7,
            ApiRoute::Stderr(_) => 8,
            ApiRoute::Command(_, PersonCommand::Restart) => 9,
            ApiRoute::Command(_, PersonCommand::Enable) => 10,
            ApiRoute::Command(_, PersonCommand::Disable) => 11,
            ApiRoute::Reload => 12,
            ApiRoute::Events => 13,
            ApiRoute::Watch => 14,
            ApiRoute::Sessions => 15,
            ApiRoute::Call(_) => 16,
            ApiRoute::Ping(_) => 17,
            ApiRoute::Record(_) => 18,
            ApiRoute::CancelCall(..) => 19,
            ApiRoute::BeginLogin(_) => 20,
            ApiRoute::LoginProgress(_) => 21,
            ApiRoute::LoginCallback(_) => 22,
            ApiRoute::Page => 23,
            ApiRoute::Refresh(_) => 24,
        }
    }

    #[test]
    fn every_route_is_in_the_openapi_document() {
        let document: serde_json::Value = serde_json::from_slice(&crate::openapi::json()).expect("JSON");
        let mut found = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            let path = path.replace("{name}", "files").replace("{id}", "7");
            for method in methods.as_object().expect("methods").keys() {
                let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
                let route = ApiRoute::of(&method, &path).expect("a route");
                found.insert(number(&route));
            }
        }
        assert_eq!(found, (0..25).collect());
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        for (method, path, kind) in [
            ("GET", "/", ProblemKind::NotFound),
            ("GET", "/api/v2/servers", ProblemKind::NotFound),
            ("GET", "/api/v1/nothing", ProblemKind::NotFound),
            ("GET", "/api/v1/servers/a/b", ProblemKind::NotFound),
            ("POST", "/api/v1/events", ProblemKind::MethodNotAllowed),
            ("GET", "/api/v1/servers/a/restart", ProblemKind::MethodNotAllowed),
            ("GET", "/api/v1/reload", ProblemKind::MethodNotAllowed),
            ("GET", "/api/v1/servers/%ff", ProblemKind::BadRequest),
        ] {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let problem = ApiRoute::of(&method, path).expect_err(path);
            assert_eq!(problem.kind, kind, "{method} {path}");
        }
    }
}
