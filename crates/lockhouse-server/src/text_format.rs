//! Prometheus's text format, in which many tools read metrics: written from OpenMetrics, which is much the same.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>

/// Version 0.0.4 is the only one.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `openmetrics` in this format: a counter is described by the name of its value, which ends in `_total`, and there is neither
/// a unit nor a mark of the end.
pub(crate) fn of(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut write = |line: &[&str]| {
        text.extend(line.iter().copied());
        text.push('\n');
    };
    // The type comes after the help, and decides the names of both.
    let mut help = "";
    for line in openmetrics.lines() {
        let mut words = line.splitn(4, ' ');
        match [(); 4].map(|()| words.next().unwrap_or_default()) {
            ["#", "HELP", _, text] => help = text,
            ["#", "TYPE", name, kind] => {
                let suffix = if kind == "counter" { "_total" } else { "" };
                write(&["# HELP ", name, suffix, " ", help]);
                write(&["# TYPE ", name, suffix, " ", kind]);
            }
            ["#", ..] => {}
            _ => write(&[line]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_by_the_name_of_their_value() {
        let openmetrics = "# HELP calls Calls by how.\n# TYPE calls counter\ncalls_total{a=\"# x\"} 2\n\
            # HELP took_seconds How long.\n# TYPE took_seconds histogram\n# UNIT took_seconds seconds\n\
            took_seconds_sum 0.5\n# EOF\n";
        let text = "# HELP calls_total Calls by how.\n# TYPE calls_total counter\ncalls_total{a=\"# x\"} 2\n\
            # HELP took_seconds How long.\n# TYPE took_seconds histogram\ntook_seconds_sum 0.5\n";
        assert_eq!(of(openmetrics), text);
    }
}
