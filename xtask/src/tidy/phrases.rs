//! Rule of plain messages: phrases that a reader has to decode, in texts that users see.
//!
//! The rule cannot tell whether a message is good. It holds off the phrases that once made users
//! read a message twice.

use proc_macro2::TokenTree;

use super::{Finding, Tree};

/// Phrases, each with its plain form.
const RIDDLES: &[(&str, &str)] = &[
    (" is none", "say what it is, or that it does not exist"),
    (" came to be", "say which action failed"),
    (" anew", "say `again`, or use a verb with `re`"),
    ("so many", "give the number"),
    ("nobody", "name the user, host or process"),
    ("somebody", "name the user, host or process"),
    ("whoever", "name the user, host or process"),
    ("whatever", "name the things"),
    ("leave it away", "say `omit it`"),
];

/// Marks of lines whose texts speak to developers.
const NOT_FOR_USERS: &[&str] = &[".expect(", "assert", "panic!(", "unreachable!("];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let crates = tree
        .rust()
        .filter(|(file, _)| file.path.starts_with("crates/"));
    for (file, rust) in crates {
        rust.each_token(|token, _| {
            let TokenTree::Literal(literal) = token else {
                return;
            };
            let text = literal.to_string().to_ascii_lowercase();
            let mut found = RIDDLES.iter().filter(|(phrase, _)| has(&text, phrase));
            let line = literal.span().start().line;
            if found.clone().next().is_none() || rust.in_test(line) {
                return;
            }
            let source = file
                .text
                .lines()
                .nth(line - 1)
                .unwrap_or_default()
                .trim_start();
            if NOT_FOR_USERS.iter().any(|of| source.contains(of)) || source.starts_with("//") {
                return;
            }
            for (phrase, plain) in &mut found {
                findings.push(Finding {
                    path: file.path.clone(),
                    line,
                    rule: "phrase",
                    message: format!("{:?} in a text for users: {plain}", phrase.trim()),
                });
            }
        });
    }
    findings
}

/// Reports whether a text in small letters has a phrase that no letter continues.
fn has(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase)
        .any(|(at, _)| !text[at + phrase.len()..].starts_with(|next: char| next.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn riddles_are_found_in_texts_and_not_in_tests_or_comments() {
        let text = "//! x\nfn a() -> [&'static str; 3] {\n    // This is none.\n    [\"the unit is none\",\n    \"Nobody listens\", \"there is nonetheless one\"]\n}\n/// That is none.\nfn d() { e().expect(\"nobody\"); }\nfn f() { g(\"http://whoever\") }\n#[cfg(test)]\nmod tests { fn b() { c(\"that is none\") } }\n";
        let found: Vec<usize> = check(&Tree::fixture(&[("crates/a.rs", text)]))
            .into_iter()
            .map(|finding| finding.line)
            .collect();
        assert_eq!(found, [4, 5, 9]);
    }
}
