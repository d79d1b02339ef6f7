//! Alert rules for Prometheus: one for each condition of the daemon, and some for what only others
//! can see of it.
//!
//! Names, severities and words are those of the daemon's own conditions. The table adds expressions
//! where metrics can tell a condition without the daemon's judgement. The other conditions are told
//! as the daemon judges them. `packaging/prometheus/sandstone.rules.yml` is written from this, and
//! a test compares both.

mod table;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use alert::{CONDITIONS, Condition};

pub use table::{RECORDINGS, RULES};

/// A condition that an expression tells.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Condition, with its words.
    pub condition: &'static Condition,
    /// Expression that has a series for each object for which the condition holds.
    pub expression: &'static str,
    /// Finding, with labels of the expression in braces: `{pool}`.
    pub finding: &'static str,
}

/// An expression that several rules need, under a name of its own.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    /// Name of the recorded series.
    pub name: &'static str,
    /// Expression that is recorded.
    pub expression: &'static str,
}

/// An alert as the file has it.
#[derive(Clone, Debug)]
struct Alert {
    condition: &'static Condition,
    expression: String,
    hold_s: u64,
    finding: String,
}

impl Alert {
    /// Returns all alerts: those of the table, then those that the daemon has to judge.
    fn all() -> Vec<Self> {
        let rules = RULES.iter().map(Self::of_rule);
        let is_in_table = |it: &Condition| RULES.iter().any(|rule| rule.condition.id == it.id);
        let others = CONDITIONS.iter().filter(|it| !is_in_table(it));
        rules.chain(others.map(|it| Self::as_judged(it))).collect()
    }

    fn of_rule(rule: &Rule) -> Self {
        Self {
            condition: rule.condition,
            expression: rule.expression.to_owned(),
            hold_s: rule.condition.hold_s,
            finding: rule.finding.to_owned(),
        }
    }

    /// Tells a condition as the daemon judges it. The daemon has waited for its hold.
    fn as_judged(condition: &'static Condition) -> Self {
        Self {
            condition,
            expression: format!("sandstone_alert_active{{alert=\"{}\"}} == 1", condition.id),
            hold_s: 0,
            finding: format!("The daemon tells of {{object}}: {}", condition.id),
        }
    }

    /// Returns the name of the alert: `SandstonePoolSuspended`.
    fn name(&self) -> String {
        let mut name = "Sandstone".to_owned();
        for word in self.condition.id.split('-') {
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
    for alert in Alert::all() {
        let of = alert.condition;
        writeln!(out, "      - alert: {}", alert.name())?;
        write_expression(out, &alert.expression)?;
        writeln!(out, "        for: {}s", alert.hold_s)?;
        writeln!(out, "        labels:")?;
        writeln!(out, "          condition: {}", of.id)?;
        writeln!(out, "          severity: {}", of.severity.as_str())?;
        writeln!(out, "        annotations:")?;
        writeln!(out, "          summary: {}", quoted(&alert.summary()))?;
        let description = format!("{} {}", of.meaning, of.remedy);
        writeln!(out, "          description: {}", quoted(&description))?;
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
