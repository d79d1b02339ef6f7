//! Alert rules for Prometheus: those conditions of the daemon that metrics can express.
//!
//! The table has one row for each condition. `packaging/prometheus/sandstone.rules.yml` is written
//! from it, and a test compares both.

mod table;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

pub use table::{RECORDINGS, RULES};

/// Severity of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Everything is served, and an administrator should look.
    Warning,
    /// Redundancy or a promise is lost.
    Error,
    /// Data is not served, or lost, or soon will be.
    Critical,
}

impl Severity {
    /// Returns the word in labels.
    pub fn word(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// A condition as a rule of Prometheus.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Name of the condition, in lower case with hyphens.
    pub condition: &'static str,
    /// Severity of the condition.
    pub severity: Severity,
    /// Expression that has a series for each object for which the condition holds.
    pub expression: &'static str,
    /// Seconds for which the condition has to hold before it is told.
    pub hold_s: u32,
    /// Finding, with labels of the expression in braces: `{pool}`.
    pub finding: &'static str,
    /// Step to try next.
    pub next: &'static str,
}

/// An expression that several rules need, under a name of its own.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    /// Name of the recorded series.
    pub name: &'static str,
    /// Expression that is recorded.
    pub expression: &'static str,
}

impl Rule {
    /// Returns the name of the alert: `SandstonePoolSuspended`.
    fn alert(&self) -> String {
        let mut name = "Sandstone".to_owned();
        for word in self.condition.split('-') {
            let (first, rest) = word.split_at(1);
            name.push_str(&first.to_uppercase());
            name.push_str(rest);
        }
        name
    }

    /// Returns the finding as a template of Prometheus.
    fn summary(&self) -> String {
        let labels = self.finding.replace('{', "{{ $labels.");
        labels.replace('}', " }}")
    }
}

/// Returns the file of rules.
pub fn file() -> String {
    let mut out = String::from(
        "# Alert rules of Sandstone for Prometheus.\n\
         # Each alert has the labels `condition` and `severity`, by which it can be routed and silenced.\n\
         # The file is written from crates/control/src/metrics/rules/table.rs: do not edit it.\n\
         groups:\n",
    );
    // Writing to a String cannot fail.
    let _ = write_groups(&mut out);
    out
}

fn write_groups(out: &mut String) -> std::fmt::Result {
    writeln!(out, "  - name: sandstone-recordings\n    rules:")?;
    for recording in RECORDINGS {
        writeln!(out, "      - record: {}", recording.name)?;
        write_expression(out, recording.expression)?;
    }
    writeln!(out, "  - name: sandstone\n    rules:")?;
    for rule in RULES {
        writeln!(out, "      - alert: {}", rule.alert())?;
        write_expression(out, rule.expression)?;
        writeln!(out, "        for: {}s", rule.hold_s)?;
        writeln!(out, "        labels:")?;
        writeln!(out, "          condition: {}", rule.condition)?;
        writeln!(out, "          severity: {}", rule.severity.word())?;
        writeln!(out, "        annotations:")?;
        writeln!(out, "          summary: {}", quoted(&rule.summary()))?;
        writeln!(out, "          description: {}", quoted(rule.next))?;
    }
    Ok(())
}

/// Writes an expression as lines of their own, so that it needs no quotation marks.
fn write_expression(out: &mut String, expression: &str) -> std::fmt::Result {
    writeln!(out, "        expr: |-")?;
    let lines = expression.lines();
    lines
        .map(str::trim_end)
        .try_for_each(|line| writeln!(out, "          {line}"))
}

/// Returns a string of YAML.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
