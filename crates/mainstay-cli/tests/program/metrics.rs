//! `mainstay serve --metrics`, scraped by a real Prometheus and judged by its `promtool`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use mainstay_partner::{free_port, system_program};
use mainstay_testkit::poll;
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, good};
use crate::serving::{LONG, Serving, Visitor};

const DOCUMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/observability");

/// The status and the body of the answer to a GET; `None` if nothing listens there.
fn get(address: SocketAddr, path: &str, headers: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LONG)).expect("a socket");
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

#[test]
fn metrics_need_a_token_where_mcp_needs_one_and_none_where_it_needs_none() {
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let open = Serving::start(&sandbox, &["--metrics"]);
    let said = open.hears("the metrics are at");
    assert!(said.ends_with("/metrics"), "{said}");
    let (status, body) = get(open.address, "/metrics", "").expect("an answer");
    assert_eq!(status, 200);
    assert!(
        body.contains(r#"mainstay_server_enabled{server="one"} 1"#),
        "{body}"
    );
    drop(open);

    let mcp_token = sandbox.path("mcp-token");
    fs::write(&mcp_token, "the-token-of-mcp-clients").expect("written");
    let closed = Serving::start(
        &sandbox,
        &["--metrics", "--token-file", &mcp_token.display().to_string()],
    );
    let said = closed.hears("the metrics are at");
    let (_, file) = said.split_once("their token is in ").expect("a file");
    let token = fs::read_to_string(file).expect("made");
    let bearer = |token: &str| format!("Authorization: Bearer {}\r\n", token.trim());
    let status = |headers: &str| get(closed.address, "/metrics", headers).expect("an answer").0;
    assert_eq!(status(&bearer(&token)), 200);
    assert_eq!(status(""), 401);
    assert_eq!(status(&bearer("the-token-of-mcp-clients")), 401);
    let (api, _) = get(closed.address, "/api/v1", &bearer(&token)).expect("an answer");
    assert_eq!(api, 401, "it opens no other path");
    drop(closed);

    let without = Serving::start(&sandbox, &[]);
    assert_eq!(get(without.address, "/metrics", "").expect("an answer").0, 404);
}

/// Makes a call that succeeds, and one that fails.
fn call_twice(serving: &Serving) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let visitor = Visitor::legacy(serving.address, "/mcp").await;
        visitor.call("one__echo", json!({ "text": "hello" })).await;
        visitor.ask("no/such", json!({})).await;
    });
}

#[test]
fn promtool_finds_nothing_to_improve_in_metrics_and_rules() {
    let Some(promtool) = system_program("promtool") else {
        return;
    };
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let serving = Serving::start(&sandbox, &["--metrics"]);
    serving.hears("one: connected");
    call_twice(&serving);
    let (_, body) = get(serving.address, "/metrics", "").expect("an answer");
    assert!(body.contains(r#"gen_ai_tool_name="echo"} 1"#), "{body}");
    let mut check = Command::new(&promtool);
    let check = check.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut check = check
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    check
        .stdin
        .take()
        .expect("piped")
        .write_all(body.as_bytes())
        .expect("written");
    let checked = check.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && said.is_empty(), "{said}\n{body}");

    let rules = Path::new(DOCUMENTS).join("alerts.yaml");
    let checked = Command::new(promtool)
        .args(["check", "rules"])
        .arg(rules)
        .output()
        .expect("it runs");
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

/// A Prometheus that runs; it ends when this is dropped.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

impl Prometheus {
    fn start(program: PathBuf, directory: &Path, configuration: &str) -> Self {
        let file = directory.join("prometheus.yml");
        fs::write(&file, configuration).expect("written");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let child = Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        Self { child, address }
    }

    /// The values of a query; `None` while it is not ready.
    fn query(&self, query: &str) -> Option<Vec<Value>> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (_, body) = get(self.address, &format!("/api/v1/query?query={encoded}"), "")?;
        let answer: Value = serde_json::from_str(&body).ok()?;
        assert_ne!(answer["status"], "error", "{query}: {answer}");
        Some(answer["data"]["result"].as_array()?.clone())
    }

    /// Waits until a query has a value.
    fn waits_for(&self, query: &str) -> Vec<Value> {
        // Another program's moment: there is no event to wait for.
        let found = poll::look_for(LONG, || self.query(query).filter(|found| !found.is_empty()));
        found.unwrap_or_else(|| panic!("no value in time: {query}"))
    }
}

#[test]
fn a_real_prometheus_scrapes_with_the_token_and_understands_every_query() {
    let Some(prometheus) = system_program("prometheus") else {
        return;
    };
    let sandbox = Sandbox::with(&json!({ "one": good() }));
    let token_file = sandbox.path("metrics-token");
    let token_argument = token_file.display().to_string();
    let serving = Serving::start(&sandbox, &["--metrics", "--metrics-token-file", &token_argument]);
    serving.hears("one: connected");
    call_twice(&serving);
    let configuration = format!(
        "global:\n  scrape_interval: 200ms\nrule_files:\n  - {DOCUMENTS}/alerts.yaml\nscrape_configs:\n  - job_name: mainstay\n    \
         authorization:\n      credentials_file: {token_argument}\n    static_configs:\n      - targets: [\"{}\"]\n",
        serving.address
    );
    let directory = tempfile::tempdir().expect("a directory");
    let prometheus = Prometheus::start(prometheus, directory.path(), &configuration);
    prometheus.waits_for("up{job=\"mainstay\"} == 1");
    let found = prometheus.waits_for("mainstay_server_up{server=\"one\"}");
    assert_eq!(found[0]["value"][1], "1");
    let types = prometheus.waits_for("mainstay_server_state{state=\"connected\"} == 1");
    assert_eq!(types[0]["metric"]["server"], "one");
    // Prometheus knows no quantile of a histogram without a bucket for everything above.
    let quantile = "histogram_quantile(0.9, sum by (le) (mcp_client_operation_duration_seconds_bucket))";
    let found = prometheus.waits_for(quantile);
    let value = found[0]["value"][1].as_str().map(str::parse::<f64>);
    assert!(
        value.is_some_and(|value| value.is_ok_and(f64::is_finite)),
        "{found:?}"
    );

    let dashboard = fs::read_to_string(Path::new(DOCUMENTS).join("grafana-dashboard.json")).expect("there");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    for target in panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"))
    {
        let query = target["expr"].as_str().expect("a query");
        let query = query.replace("$server", ".*").replace("$__rate_interval", "5m");
        prometheus.query(&query).expect("an answer");
    }
}
