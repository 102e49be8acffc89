//! What is documented, and what the dashboard and the alert rules ask for, is what is exported.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use family::{ALL, FamilyKind};

const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");
const DASHBOARD: &str = include_str!("../../../../docs/observability/grafana-dashboard.json");
const RULES: &str = include_str!("../../../../docs/observability/alerts.yaml");

fn kind(kind: FamilyKind) -> &'static str {
    match kind {
        FamilyKind::Gauge => "gauge",
        FamilyKind::Counter => "counter",
        FamilyKind::Histogram => "histogram",
        FamilyKind::Info => "info",
    }
}

#[test]
fn the_document_lists_every_metric_with_its_type_and_no_other() {
    let documented: BTreeMap<String, String> = DOCUMENT
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let name = cells.next()?.strip_suffix('`')?;
            let kind = cells.next()?;
            let is_kind = ["gauge", "counter", "histogram", "info"].contains(&kind);
            is_kind.then(|| (name.to_owned(), kind.to_owned()))
        })
        .collect();
    let exported: BTreeMap<String, String> = ALL
        .iter()
        .map(|family| (family.full_name(), kind(family.kind).to_owned()))
        .collect();
    assert_eq!(documented, exported);
    assert_eq!(exported.len(), ALL.len(), "two families have one name");
}

/// The names in a query that look like metrics of this program. Text in quotes and what stands in braces or after `by` is no name.
fn names_in(query: &str) -> BTreeSet<String> {
    let mut plain = String::new();
    let (mut depth, mut is_quoted) = (0, false);
    for character in query.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            '{' if !is_quoted => depth += 1,
            '}' if !is_quoted => depth -= 1,
            character if depth == 0 && !is_quoted => plain.push(character),
            _in_braces => {}
        }
    }
    // The labels of an aggregation: `by (server, le)`.
    let mut without_labels = String::new();
    let mut rest = plain.as_str();
    while let Some((before, after)) = rest.split_once("by (") {
        without_labels.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    without_labels.push_str(rest);
    let words =
        without_labels.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let is_ours = |word: &&str| {
        ["mainstay_", "mcp_", "process_"]
            .iter()
            .any(|start| word.starts_with(start))
    };
    words.filter(is_ours).map(str::to_owned).collect()
}

fn exported_samples() -> BTreeSet<String> {
    let samples = ALL.iter().flat_map(|family| {
        let name = family.full_name();
        match family.kind {
            FamilyKind::Histogram => ["bucket", "sum", "count"]
                .map(|part| format!("{name}_{part}"))
                .to_vec(),
            FamilyKind::Gauge | FamilyKind::Counter | FamilyKind::Info => vec![name],
        }
    });
    samples.collect()
}

#[track_caller]
fn check(queries: &[String]) {
    let exported = exported_samples();
    let asked: BTreeSet<String> = queries.iter().flat_map(|query| names_in(query)).collect();
    assert!(asked.len() > 5, "hardly any query was found: {asked:?}");
    let unknown: Vec<_> = asked.difference(&exported).collect();
    assert!(unknown.is_empty(), "not exported: {unknown:?}");
}

#[test]
fn every_query_of_the_dashboard_names_an_exported_metric() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let queries: Vec<String> = targets
        .map(|target| target["expr"].as_str().expect("a query").to_owned())
        .collect();
    assert!(queries.len() >= panels.len());
    for query in &queries {
        assert!(
            !names_in(query).is_empty(),
            "it asks for nothing of Mainstay: {query}"
        );
    }
    check(&queries);
}

#[test]
fn every_query_of_the_alert_rules_names_an_exported_metric() {
    let mut queries = Vec::new();
    let mut lines = RULES.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(query) = line.trim().strip_prefix("expr: ") else {
            continue;
        };
        let mut query = query.to_owned();
        // A query on lines of its own is indented deeper.
        while let Some(more) = lines.next_if(|next| next.starts_with("          ")) {
            query.push_str(more);
        }
        queries.push(query);
    }
    assert_eq!(queries.len(), RULES.matches("- alert: ").count());
    check(&queries);
}

#[test]
fn names_are_found_in_queries_and_labels_are_not() {
    let query =
        r#"sum by (server, mcp_method_name) (rate(mcp_a_count{x="mainstay_b", mcp_c="}"}[5m])) / mainstay_d"#;
    assert_eq!(
        names_in(query),
        BTreeSet::from(["mcp_a_count".to_owned(), "mainstay_d".to_owned()])
    );
}

#[test]
fn a_token_for_metrics_is_compared_and_an_open_door_needs_none() {
    let access = MetricsAccess::token(&Secret::from("0123456789abcdef"));
    assert!(access.admits("0123456789abcdef") && !access.admits("0123456789abcdeF") && !access.admits(""));
    assert!(!access.is_public());
    assert!(MetricsAccess::everyone().is_public());
    assert!(!MetricsAccess::none().is_public() && !MetricsAccess::none().admits(""));
}

#[test]
fn a_reader_gets_openmetrics_if_it_asks_for_it() {
    let asks = |accept: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        accepts_openmetrics(&headers)
    };
    assert!(asks(
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"
    ));
    assert!(asks("text/plain, Application/OpenMetrics-Text"));
    assert!(!asks("*/*") && !asks("text/plain") && !accepts_openmetrics(&HeaderMap::new()));
}
