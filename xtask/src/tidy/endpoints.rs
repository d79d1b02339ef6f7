//! Rule of endpoints: a path of the API is written once, in the description of its endpoint.
//! Server, client, command line and lab take it from there.

use std::collections::BTreeMap;

use proc_macro2::TokenTree;

use super::{Finding, Tree};

/// Folder of the descriptions.
const HOME: &str = "crates/control/src/endpoint/";
/// Start of each path of the API.
const PREFIX: &str = "/v1/";

/// Finds paths of the API that stand outside of the descriptions, or twice in them. Tests of the
/// wire are left alone: they write requests as other programs do.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for (file, rust) in tree.rust() {
        if !file.path.starts_with("crates/") || rust.is_test {
            continue;
        }
        let is_home = file.path.starts_with(HOME);
        rust.each_token(|token, _| {
            let TokenTree::Literal(literal) = token else {
                return;
            };
            let text = literal.to_string();
            let line = literal.span().start().line;
            let mut report = |message: String| {
                findings.push(Finding {
                    path: file.path.clone(),
                    line,
                    rule: "endpoint",
                    message,
                });
            };
            let path = text.trim_matches('"');
            if is_home && path.starts_with(PREFIX) {
                let place = format!("{}:{line}", file.path);
                if let Some(first) = known.insert(path.to_owned(), place) {
                    report(format!(
                        "the path {path} is written twice, first at {first}: give it a name"
                    ));
                }
            } else if !is_home && names_a_path(path) {
                report(format!(
                    "a path of the API is written here: take it from its endpoint ({HOME})"
                ));
            }
        });
    }
    findings
}

/// Reports whether a text has a path of the API: `tank/v1/a` is the name of a dataset.
fn names_a_path(text: &str) -> bool {
    let mut found = text.match_indices(PREFIX);
    found.any(|(at, _)| !text[..at].ends_with(|before: char| before.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Vec<usize> {
        let tree = Tree::fixture(files);
        check(&tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_path_stands_only_in_its_endpoint() {
        let text = "//! x\nfn a() { get(\"/v1/lus\"); }\nfn b() { show(\"GET /v1/lus\"); }\n\
                    fn c() { make(\"tank/v1/a\"); }\n";
        assert_eq!(lines(&[("crates/cli/src/lu.rs", text)]), [2, 3]);
        assert_eq!(lines(&[("crates/cli/tests/lu.rs", text)]), [0; 0]);
        assert_eq!(lines(&[("xtask/src/lu.rs", text)]), [0; 0]);
    }

    #[test]
    fn an_endpoint_writes_its_path_once() {
        let home = format!("{HOME}lu.rs");
        let once = "//! x\nconst ALL: &str = \"/v1/lus\";\n";
        assert_eq!(lines(&[(&home, once)]), [0; 0]);
        let twice = "//! x\nconst ALL: &str = \"/v1/lus\";\nconst OTHERS: &str = \"/v1/lus\";\n";
        assert_eq!(lines(&[(&home, twice)]), [3]);
    }
}
