//! Traces over OTLP/HTTP, if a receiver is configured: by `--otlp-endpoint`, or by the variables that OpenTelemetry defines.
//!
//! The library and the gateway write `tracing` spans with the ids of the trace in their fields (`layer`); a bounded queue takes them to a task
//! that sends them (`exporter`), written as protobuf (`protobuf`). Without a receiver there is no layer, and the spans cost nothing.

mod exporter;
mod layer;
mod protobuf;
mod span;

use std::env;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use http::header::{HeaderName, HeaderValue};
use mainstay::TraceContext;
use tracing::Subscriber;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::exit::CommandFailure;
use exporter::{ExporterHandle, QueuedSpans};
use layer::OtlpLayer;
use span::{AttributeValue, Attributes, clean};

/// How long the end of the program waits for the last spans.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// Where traces go.
#[derive(Clone)]
pub(crate) struct OtlpSettings {
    url: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    resource: Attributes,
}

/// What has to be sent, until a runtime is there to send it.
static QUEUED: Mutex<Option<(OtlpSettings, QueuedSpans)>> = Mutex::new(None);

/// The exporter that runs.
static RUNNING: Mutex<Option<ExporterHandle>> = Mutex::new(None);

impl OtlpSettings {
    /// What the command line and the environment say; `None` if traces are not wanted.
    pub(crate) fn find(endpoint: Option<&str>) -> Result<Option<Self>, CommandFailure> {
        Self::of(endpoint, |name| {
            env::var(name).ok().filter(|value| !value.trim().is_empty())
        })
        .map_err(CommandFailure::usage)
    }

    fn of(endpoint: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Option<Self>> {
        let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|exporter| exporter == "none");
        let base = |base: String| format!("{}/v1/traces", base.trim_end_matches('/'));
        let url = match endpoint {
            Some(endpoint) => Some(base(endpoint.to_owned())),
            None if is_off => None,
            None => variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
                .or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(base)),
        };
        let Some(url) = url else { return Ok(None) };
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(anyhow!(
                "the address for traces must begin with http:// or https://: Mainstay speaks OTLP over HTTP, usually at port 4318"
            ));
        }
        let authority = url.split('/').nth(2).unwrap_or_default();
        if authority.contains('@') {
            return Err(anyhow!(
                "the address for traces holds a user name or a password, which would be shown wherever the address is: send a header \
                 Authorization instead, in OTEL_EXPORTER_OTLP_HEADERS"
            ));
        }
        let protocol = variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(protocol) = protocol.filter(|protocol| protocol != "http/protobuf") {
            return Err(anyhow!(
                "OTEL_EXPORTER_OTLP_PROTOCOL is {}: Mainstay speaks http/protobuf alone",
                clean(&protocol)
            ));
        }
        let given =
            variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| variable("OTEL_EXPORTER_OTLP_HEADERS"));
        let mut headers = vec![(
            HeaderName::from_static("content-type"),
            HeaderValue::from_static("application/x-protobuf"),
        )];
        for pair in given
            .iter()
            .flat_map(|given| given.split(','))
            .filter(|pair| !pair.trim().is_empty())
        {
            headers.push(header(pair).context("OTEL_EXPORTER_OTLP_HEADERS is not understood")?);
        }
        let name = variable("OTEL_SERVICE_NAME").unwrap_or_else(|| "mainstay".to_owned());
        let text = |value: &str| AttributeValue::Text(clean(value));
        Ok(Some(Self {
            url,
            headers,
            resource: vec![
                ("service.name".to_owned(), text(&name)),
                ("service.version".to_owned(), text(env!("CARGO_PKG_VERSION"))),
                ("service.instance.id".to_owned(), text(&new_instance_id())),
            ],
        }))
    }

    /// The address without its query, which may be secret.
    fn shown_url(&self) -> &str {
        self.url.split(['?', '#']).next().unwrap_or_default()
    }
}

/// A random UUID (RFC 9562, version 4). Process ids repeat, on one machine and across containers.
fn new_instance_id() -> String {
    let mut digits = TraceContext::root().trace_id();
    // The version, and the variant in the upper two bits.
    digits.replace_range(12..13, "4");
    let variant = match &digits[16..17] {
        "0" | "4" | "8" | "c" => "8",
        "1" | "5" | "9" | "d" => "9",
        "2" | "6" | "a" | "e" => "a",
        _other => "b",
    };
    digits.replace_range(16..17, variant);
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    parts.join("-")
}

/// A header of the form `name=value`, percent-encoded. Its value is secret, and in no message.
fn header(pair: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let (name, value) = pair.split_once('=').context("a header has the form name=value")?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).context("the name of a header is not valid")?;
    let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8();
    let value = value.context("the value of a header is not valid UTF-8")?;
    let mut value = HeaderValue::from_str(&value).context("the value of a header is not valid")?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// The layer that takes spans for this receiver. [`start`] begins to send them.
pub(crate) fn layer<S>(settings: OtlpSettings) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let (queue, queued) = exporter::queue();
    *lock(&QUEUED) = Some((settings, queued));
    OtlpLayer(queue).with_filter(filter_fn(layer::is_traced))
}

/// Begins to send spans, if a receiver is configured.
///
/// # Panics
/// Outside of a tokio runtime.
pub(crate) fn start() {
    if let Some((settings, queued)) = lock(&QUEUED).take() {
        *lock(&RUNNING) = Some(exporter::start(settings, queued));
    }
}

/// Sends the last spans. Called before the program ends.
pub(crate) async fn finish() {
    let running = lock(&RUNNING).take();
    if let Some(running) = running {
        running.finish(FINISH_TIMEOUT).await;
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(endpoint: Option<&str>, variables: &[(&str, &str)]) -> anyhow::Result<Option<OtlpSettings>> {
        OtlpSettings::of(endpoint, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_variables_of_opentelemetry_say_where_traces_go() {
        let url = |endpoint, variables: &[(&str, &str)]| {
            found(endpoint, variables)
                .expect("valid")
                .map(|settings| settings.url)
        };
        assert_eq!(url(None, &[]), None);
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
        assert_eq!(
            url(None, &[base]).as_deref(),
            Some("http://collector:4318/v1/traces")
        );
        let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces.example/in");
        assert_eq!(
            url(None, &[base, whole]).as_deref(),
            Some("https://traces.example/in")
        );
        assert_eq!(url(None, &[base, ("OTEL_SDK_DISABLED", "true")]), None);
        assert_eq!(url(None, &[base, ("OTEL_TRACES_EXPORTER", "none")]), None);
        let given = url(
            Some("http://localhost:4318"),
            &[base, ("OTEL_SDK_DISABLED", "true")],
        );
        assert_eq!(given.as_deref(), Some("http://localhost:4318/v1/traces"));
    }

    #[test]
    fn each_instance_has_a_random_uuid() {
        let ids: std::collections::BTreeSet<String> = (0..64).map(|_| new_instance_id()).collect();
        assert_eq!(ids.len(), 64);
        for id in &ids {
            let lengths: Vec<_> = id.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
            assert!(
                id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()),
                "{id}"
            );
            assert_eq!(&id[14..15], "4", "{id}");
            assert!("89ab".contains(&id[19..20]), "{id}");
        }
    }

    #[test]
    fn headers_are_decoded_and_mistakes_do_not_show_their_values() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318?key=secret");
        let settings = found(
            None,
            &[base, ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x=1")],
        );
        let settings = settings.expect("valid").expect("wanted");
        let api_key = settings
            .headers
            .iter()
            .find(|(name, _)| name == "api-key")
            .expect("there");
        assert_eq!(api_key.1, "a b");
        assert!(
            !settings.shown_url().contains("secret"),
            "{}",
            settings.shown_url()
        );
        for wrong in ["secret-value", "na me=secret-value", "a=secret-value%00"] {
            let refused = found(None, &[base, ("OTEL_EXPORTER_OTLP_HEADERS", wrong)]);
            let said = format!("{:#}", refused.err().expect("refused"));
            assert!(!said.contains("secret"), "{said}");
        }
        let grpc = found(None, &[base, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert!(grpc.is_err_and(|error| error.to_string().contains("http/protobuf")));
        assert!(found(Some("collector:4317"), &[]).is_err());
        assert!(found(Some("https://user:pass@collector"), &[]).is_err());
    }
}
