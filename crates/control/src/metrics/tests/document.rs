//! The list of metrics in `docs/operations.md` is that of the code.

use super::all_families;
use crate::metrics::family::{Family, Kind};

const DOCUMENT: &str = include_str!("../../../../../docs/operations.md");
const BEGIN: &str = "<!-- metrics: the test of crates/control compares this list -->\n";
const END: &str = "<!-- end of metrics -->";

/// Returns the line of a family in the document.
fn line(family: &Family) -> String {
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Info => "info",
    };
    let labels = match family.labels {
        [] => String::new(),
        labels => format!("{{{}}}", labels.join(", ")),
    };
    format!("| `{}{labels}` | {kind} | {} |\n", family.name, family.help)
}

#[test]
fn the_list_in_the_document_is_that_of_the_code() {
    let expected: String = all_families().into_iter().map(line).collect();
    let expected = format!("\n| series | kind | what it tells |\n|---|---|---|\n{expected}\n");
    let (_, rest) = DOCUMENT.split_once(BEGIN).expect("the begin of the list");
    let (list, _) = rest.split_once(END).expect("the end of the list");
    assert!(
        list == expected,
        "docs/operations.md does not have this list between its marks:\n{expected}"
    );
}
