//! What is required of servers: the suite is the client, of the same server directly and through the gateway, which reaches
//! it over HTTP and over stdio. What passes directly and not through the gateway, the gateway has lost.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::VERSIONS;
use super::report::{ConformanceReport, ScenarioVerdict};
use super::suite::{Suite, directory, read, verdict};
use crate::partners::json_string;
use crate::project::Project;
use crate::service::{Says, Service};
use crate::stamp::write;

/// The server on rmcp that has everything that the suite looks for.
const SERVER: &str = "debug/conformance-server";

const GATEWAY: &str = "debug/mainstay";

const START_WITHIN: Duration = Duration::from_secs(30);

/// A table for each version.
pub(super) fn run(project: &Project, suite: &Suite, expected: &[String]) -> Result<Vec<ConformanceReport>> {
    let files = suite.results("server")?;
    let server = project.built(SERVER);
    let mut over_http = Command::new(&server);
    let log = files.join("server.log");
    let port = |line: &str| line.parse::<u16>().ok();
    let (_server, port) = Service::start(
        over_http.args(["--http", "0"]),
        Says::OnStdout,
        &log,
        START_WITHIN,
        port,
    )?;
    let direct = format!("http://127.0.0.1:{port}/mcp");

    let configuration = files.join("mcp.json");
    write(&configuration, &configured(&direct, &server))?;
    let mut serve = Command::new(project.built(GATEWAY));
    serve.args(["serve", "--no-cache", "--listen", "127.0.0.1:0", "--config"]);
    serve.arg(&configuration);
    let log = files.join("gateway.log");
    let (_gateway, union) = Service::start(&mut serve, Says::OnStderr, &log, START_WITHIN, endpoint)?;

    let report = |version: &&str| {
        let mut report =
            ConformanceReport::new(&format!("{version}: a server directly, and behind the gateway"));
        report.add("directly", &[], verdicts(suite, version, "directly", &direct)?);
        for leg in &LEGS {
            let url = format!("{union}/{}", leg.server);
            let limits: &[&str] = match *version == VERSIONS[1] {
                true => leg.modern_limits,
                false => &[],
            };
            let limits = limits.iter().map(ToString::to_string);
            let expected: Vec<String> = expected.iter().cloned().chain(limits).collect();
            report.add(leg.title, &expected, verdicts(suite, version, leg.title, &url)?);
        }
        Ok(report)
    };
    VERSIONS.iter().map(report).collect()
}

/// A way that the gateway has to the server.
struct Leg {
    title: &'static str,
    server: &'static str,
    /// The scenarios of the modern version that fail on this leg, and must.
    modern_limits: &'static [&'static str],
}

/// On stdio a process speaks one era: a session, in which a server asks one question at a time and gives it no name, and in which a question
/// belongs to no call in particular. docs/gateway.md says so under its known limits. The suite leaves calls behind whose question it never
/// answers; while one of them waits, what the server asks during another client's call is declined, as it could be shown to the
/// wrong client.
const STDIO_SESSION_LIMITS: &[&str] = &[
    "input-required-result-basic-elicitation",
    "input-required-result-basic-sampling",
    "input-required-result-basic-list-roots",
    "input-required-result-request-state",
    "input-required-result-multiple-input-requests",
    "input-required-result-multi-round",
    "input-required-result-missing-input-response",
    "input-required-result-non-tool-request",
    "input-required-result-result-type",
    "input-required-result-tampered-state",
    "input-required-result-capability-check",
    "input-required-result-ignore-extra-params",
];

const LEGS: [Leg; 4] = [
    Leg {
        title: "over HTTP",
        server: "http",
        modern_limits: &[],
    },
    Leg {
        title: "over stdio",
        server: "stdio",
        modern_limits: STDIO_SESSION_LIMITS,
    },
    Leg {
        title: "modern HTTP",
        server: "modern-http",
        modern_limits: &[],
    },
    Leg {
        title: "modern stdio",
        server: "modern-stdio",
        modern_limits: &[],
    },
];

/// The same server for every leg.
fn configured(url: &str, program: &Path) -> String {
    let http = format!(r#""url": {}"#, json_string(url));
    let stdio = format!(r#""command": {}"#, json_string(&program.to_string_lossy()));
    let modern = r#""era": "modern""#;
    format!(
        r#"{{ "mcpServers": {{
  "http": {{ {http} }},
  "stdio": {{ {stdio} }},
  "modern-http": {{ {http}, {modern} }},
  "modern-stdio": {{ {stdio}, {modern} }}
}} }}
"#
    )
}

/// Where the gateway says that it serves all servers: `serving 2 servers at http://127.0.0.1:7332/mcp`.
fn endpoint(line: &str) -> Option<String> {
    let (_, url) = line.strip_prefix("serving ")?.rsplit_once(" at ")?;
    Some(url.to_owned())
}

fn verdicts(suite: &Suite, version: &str, leg: &str, url: &str) -> Result<Vec<(String, ScenarioVerdict)>> {
    let required = suite.required(version, "server")?;
    let results = suite.results(&format!("server/{version} {leg}"))?;
    let said = suite.said(&["server", "--url", url], version, &results, &results)?;
    let verdict = |scenario: String| {
        let verdict = verdict(&said, &scenario).unless(|| warning(&results, &scenario));
        (scenario, verdict)
    };
    Ok(required.into_iter().map(verdict).collect())
}

/// What a server should do and does not is a failure here: the suite lets it pass.
fn warning(results: &Path, scenario: &str) -> Option<String> {
    let checks = directory(results, &format!("server-{scenario}")).map(|found| found.join("checks.json"));
    let Some(checks) = checks.and_then(|checks| read(&checks).ok()) else {
        return Some("the suite left no results of it".to_owned());
    };
    let warnings = checks.matches(r#""status": "WARNING""#).count();
    (warnings > 0).then(|| format!("{warnings} warnings"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{LEGS, configured, endpoint, warning};

    #[test]
    fn the_gateway_says_where_it_serves() {
        let line = "serving 2 servers at http://127.0.0.1:38591/mcp";
        assert_eq!(endpoint(line).as_deref(), Some("http://127.0.0.1:38591/mcp"));
        assert_eq!(endpoint("using mcp.json (named by --config)"), None);
    }

    #[test]
    fn every_leg_has_its_server() {
        let configured = configured("http://127.0.0.1:1/mcp", "/bin/server".as_ref());
        for leg in LEGS {
            assert!(
                configured.contains(&format!("\"{}\": {{", leg.server)),
                "{configured}"
            );
        }
        let modern = r#""modern-http": { "url": "http://127.0.0.1:1/mcp", "era": "modern" }"#;
        assert!(configured.contains(modern), "{configured}");
        assert!(configured.contains(r#""stdio": { "command": "/bin/server" }"#));
    }

    #[test]
    fn a_modern_leg_has_no_limits() {
        for leg in LEGS.iter().filter(|leg| leg.server.starts_with("modern-")) {
            assert!(leg.modern_limits.is_empty(), "{}", leg.title);
        }
    }

    #[test]
    fn a_warning_is_a_reason_against_a_pass_and_so_is_no_result() {
        let results = std::env::temp_dir().join(format!("xtask-warning-{}", std::process::id()));
        let write = |scenario: &str, status: &str| {
            let directory = results.join(format!("server-{scenario}-2026-11-16T03-45-38-506Z"));
            fs::create_dir_all(&directory).unwrap();
            let checks = format!("[\n  {{\n    \"status\": \"{status}\"\n  }}\n]");
            fs::write(directory.join("checks.json"), checks).unwrap();
        };
        write("ping", "SUCCESS");
        write("caching", "WARNING");
        assert_eq!(warning(&results, "ping"), None);
        assert_eq!(warning(&results, "caching").as_deref(), Some("1 warnings"));
        assert!(warning(&results, "tools-list").is_some());
        fs::remove_dir_all(&results).unwrap();
    }
}
