//! The older text format of Prometheus, made from OpenMetrics for readers that do not ask for the latter.
//!
//! The samples are the same. There, the comments name a counter with its `_total`, an info is a gauge, and there are neither units
//! nor an end marker.

/// The same metrics in the older format.
pub(super) fn from_openmetrics(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut lines = openmetrics.lines().peekable();
    while let Some(line) = lines.next() {
        let (Some(help), Some(kind)) = (
            line.strip_prefix("# HELP "),
            lines.peek().and_then(|next| next.strip_prefix("# TYPE ")),
        ) else {
            if !line.starts_with("# ") {
                text.push_str(line);
                text.push('\n');
            }
            continue;
        };
        let (name, help) = help.split_once(' ').unwrap_or((help, ""));
        let kind = kind.rsplit(' ').next().unwrap_or_default();
        let (suffix, kind) = match kind {
            "counter" => ("_total", "counter"),
            "info" => ("_info", "gauge"),
            other => ("", other),
        };
        text.push_str(&format!(
            "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::from_openmetrics;

    #[test]
    fn comments_name_metrics_as_the_older_format_does_and_samples_stay() {
        let openmetrics = concat!(
            "# HELP a_seconds Some time\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n",
            "a_seconds_total{x=\"# HELP \"} 1.5\n",
            "# HELP b The program\n# TYPE b info\nb_info{v=\"1\"} 1\n",
            "# HELP c None yet\n# TYPE c gauge\n# EOF\n",
        );
        let text = concat!(
            "# HELP a_seconds_total Some time\n# TYPE a_seconds_total counter\n",
            "a_seconds_total{x=\"# HELP \"} 1.5\n",
            "# HELP b_info The program\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n",
            "# HELP c None yet\n# TYPE c gauge\n",
        );
        assert_eq!(from_openmetrics(openmetrics), text);
    }
}
