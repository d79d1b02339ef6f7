//! Prometheus' text format: families of samples, with labels that may hold any text.

use std::fmt::{Display, Write as _};

/// Kind of a family's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    /// A value that only grows, until the daemon restarts.
    Counter,
    Gauge,
    /// Cumulative numbers of commands by upper bound, their sum and their number.
    Histogram,
}

/// A text of metrics, to which families are added.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
    /// Name of the family to which samples are added.
    name: &'static str,
}

impl Exposition {
    /// Begins a family. Its samples follow.
    pub(super) fn family(&mut self, name: &'static str, kind: MetricKind, help: &str) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        debug_assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        self.name = name;
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a sample to the family.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    /// Adds a histogram to the family: the numbers of commands up to each bound in seconds, the sum
    /// of all, and their number.
    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        up_to: impl IntoIterator<Item = (&'static str, u64)>,
        sum: f64,
        number: u64,
    ) {
        let all = [("+Inf", number)];
        for (bound, commands) in up_to.into_iter().chain(all) {
            let labels = [labels, &[("le", bound)]].concat();
            self.part("_bucket", &labels, commands);
        }
        self.part("_sum", labels, sum);
        self.part("_count", labels, number);
    }

    fn part(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        for (at, (label, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// Returns the value of a label in the format's escaped form. Paths of devices may hold any
/// character.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_may_hold_whatever_paths_do() {
        let mut out = Exposition::default();
        out.family("sandstone_things", MetricKind::Gauge, "Things.");
        out.sample(&[], 3);
        out.sample(&[("path", "a\"b\\c\nd"), ("kind", "x")], 0.5);
        let expected = "# HELP sandstone_things Things.\n# TYPE sandstone_things gauge\nsandstone_things 3\n\
                        sandstone_things{path=\"a\\\"b\\\\c\\nd\",kind=\"x\"} 0.5\n";
        assert_eq!(out.into_text(), expected);
    }
}
