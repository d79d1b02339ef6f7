//! The queries of a Grafana dashboard, as Prometheus gets them.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::api::Api;

/// Fewest queries of a dashboard. A dashboard that was read wrongly has fewer.
const FEWEST: usize = 30;

/// Checks that every query of a dashboard has an answer, and returns their number.
///
/// # Errors
/// A query is refused, or has no answer. The message names all of them.
pub(super) fn all_have_answers(api: &Api, dashboard: &Path) -> Result<usize> {
    let text = std::fs::read_to_string(dashboard).context("read the dashboard")?;
    let dashboard: Value = serde_json::from_str(&text).context("the dashboard is no JSON")?;
    let mut queries = BTreeSet::new();
    collect(&dashboard["panels"], &mut queries);
    ensure!(queries.len() >= FEWEST, "only {} queries", queries.len());
    let mut faults = Vec::new();
    for query in &queries {
        match api.query(&with_values(query)) {
            Ok(series) if series.is_empty() => faults.push(format!("no answer: {query}")),
            Ok(_) => {}
            Err(error) => faults.push(format!("{error:#}: {query}")),
        }
    }
    ensure!(
        faults.is_empty(),
        "{} of {} queries are at fault:\n{}",
        faults.len(),
        queries.len(),
        faults.join("\n")
    );
    Ok(queries.len())
}

/// Collects the expressions of all panels.
fn collect(value: &Value, queries: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(query)) = fields.get("expr") {
                queries.insert(query.clone());
            }
            fields.values().for_each(|field| collect(field, queries));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, queries)),
        _ => {}
    }
}

/// Returns a query with values in place of Grafana's variables: everything is chosen.
fn with_values(query: &str) -> String {
    let query = query.replace("$__rate_interval", "5s");
    ["$job", "$instance"]
        .iter()
        .fold(query, |query, variable| query.replace(variable, ".*"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_grafana_get_values() {
        let query = "rate(a{job=~\"$job\", instance=~\"$instance\"}[$__rate_interval])";
        let expected = "rate(a{job=~\".*\", instance=~\".*\"}[5s])";
        assert_eq!(with_values(query), expected);
    }

    #[test]
    fn queries_of_nested_panels_are_found() {
        let panels = serde_json::json!([{ "panels": [{ "targets": [{ "expr": "a" }] }] }, { "targets": [{ "expr": "b" }] }]);
        let mut queries = BTreeSet::new();
        collect(&panels, &mut queries);
        assert_eq!(queries.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
