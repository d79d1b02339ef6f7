//! Prometheus' HTTP API, as far as the lab asks it.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);

/// API of a running Prometheus.
pub(super) struct Api {
    pub(super) port: u16,
}

impl Api {
    /// Runs a query, and returns the series of its answer.
    ///
    /// # Errors
    /// Prometheus refuses the query.
    pub(super) fn query(&self, query: &str) -> Result<Vec<Value>> {
        let data = self.ask(&format!("/api/v1/query?query={}", escaped(query)))?;
        let result = data["result"]
            .as_array()
            .context("an answer without a result")?;
        Ok(result.clone())
    }

    /// Returns the value of a query that has one series, or `None` if it has none.
    pub(super) fn number(&self, query: &str) -> Result<Option<f64>> {
        let series = self.query(query)?;
        let Some(first) = series.first() else {
            return Ok(None);
        };
        let value = first["value"][1]
            .as_str()
            .context("a series without a value")?;
        Ok(Some(value.parse()?))
    }

    /// Checks that no scrape failed.
    pub(super) fn targets_are_well(&self) -> Result<()> {
        let data = self.ask("/api/v1/targets")?;
        let targets = data["activeTargets"].as_array().context("no targets")?;
        ensure!(targets.len() == 1, "targets: {data}");
        for target in targets {
            ensure!(target["health"] == "up", "the target is not well: {target}");
        }
        let failed = self.number("min_over_time(up{job=\"sandstone\"}[1m])")?;
        ensure!(failed == Some(1.0), "a scrape failed");
        Ok(())
    }

    /// Checks that every rule could be evaluated.
    pub(super) fn rules_are_well(&self) -> Result<()> {
        let data = self.ask("/api/v1/rules")?;
        let groups = data["groups"].as_array().context("no groups of rules")?;
        let rules: Vec<&Value> = groups
            .iter()
            .filter_map(|group| group["rules"].as_array())
            .flatten()
            .collect();
        ensure!(rules.len() > 20, "rules: {data}");
        for rule in rules {
            ensure!(rule["health"] == "ok", "the rule is not well: {rule}");
        }
        Ok(())
    }

    fn ask(&self, path: &str) -> Result<Value> {
        let (_, body) = get(self.port, path, "application/json")?;
        let answer: Value = serde_json::from_str(&body).with_context(|| body.clone())?;
        match answer["status"].as_str() {
            Some("success") => Ok(answer["data"].clone()),
            _ => bail!("{}", answer["error"].as_str().unwrap_or(&body)),
        }
    }
}

/// Gets a path from this machine, and returns the status and the body.
pub(super) fn get(port: u16, path: &str, accept: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    // An answer to HTTP/1.0 ends with its connection, and is not in chunks.
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAccept: {accept}\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("no head of an answer")?;
    let status = head.split(' ').nth(1).context("no status of an answer")?;
    Ok((status.parse()?, body.to_owned()))
}

/// Escapes a value in a query of a URL.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() {
            true => escaped.push(char::from(byte)),
            // Writing to a String cannot fail.
            false => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_escaped() {
        assert_eq!(escaped("up{a=\"b\"} > 1"), "up%7Ba%3D%22b%22%7D%20%3E%201");
    }
}
