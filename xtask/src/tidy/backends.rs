//! Rule of backends: only the files that define a kind of backend tell it from others.
//!
//! A new kind then touches no more than these files, and no code decides by a name what a backend
//! can do.

use proc_macro2::TokenTree;

use super::{Finding, Tree};

/// Enum whose variants are the kinds.
const KINDS: &str = "BackendSpec";

/// Files that may name a variant, each with what it says of the kinds.
const ALLOWED: &[(&str, &str)] = &[
    (
        "crates/model/src/backend.rs",
        "the facts of each kind that the configuration alone tells",
    ),
    (
        "crates/backends/src/lib.rs",
        "the registry: the backend of each kind",
    ),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        if ALLOWED.iter().any(|(path, _)| *path == file.path) {
            continue;
        }
        // Tokens of the path that leads to a variant, as far as they were seen.
        let mut seen = 0;
        rust.each_token(|token, _| {
            if seen == 3 && is_variant(token) {
                let line = token.span().start().line;
                if !rust.in_test(line) {
                    findings.push(finding(&file.path, line));
                }
            }
            seen = match token {
                TokenTree::Ident(word) if word == KINDS => 1,
                TokenTree::Punct(colon) if colon.as_char() == ':' && matches!(seen, 1 | 2) => {
                    seen + 1
                }
                _ => 0,
            };
        });
    }
    findings
}

/// Reports whether what follows `BackendSpec::` is a variant, or an import of some.
fn is_variant(token: &TokenTree) -> bool {
    match token {
        TokenTree::Ident(word) => word.to_string().starts_with(char::is_uppercase),
        TokenTree::Punct(star) => star.as_char() == '*',
        TokenTree::Group(_) => true,
        TokenTree::Literal(_) => false,
    }
}

fn finding(path: &str, line: usize) -> Finding {
    let files: Vec<&str> = ALLOWED.iter().map(|(path, _)| *path).collect();
    Finding {
        path: path.to_owned(),
        line,
        rule: "backend-kinds",
        message: format!(
            "this code names a kind of backend: ask the `{KINDS}` or its `Backend`; only {} may tell kinds \
             apart",
            files.join(" and ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let found = check(&Tree::fixture(&[("crates/a/src/b.rs", text)]));
        found.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_variant_is_found_in_patterns_macros_and_imports() {
        let text = "use model::config::BackendSpec::{File, Memory};\n\
            use model::config::BackendSpec::*;\n\
            fn a(b: &BackendSpec) -> bool { matches!(b, BackendSpec::File { .. }) }\n\
            fn c() -> BackendSpec { model::config::BackendSpec::Memory { size: 1 } }\n";
        assert_eq!(lines(text), [1, 2, 3, 4]);
    }

    #[test]
    fn methods_types_and_tests_are_left_alone() {
        let text = "use model::config::{BackendSpec, Config};\n\
            fn a(b: BackendSpec) -> Option<u64> { BackendSpec::memory(1).size() }\n\
            #[cfg(test)]\nmod tests { fn b() { c(BackendSpec::Memory { size: 1 }) } }\n";
        assert_eq!(lines(text), [0; 0]);
        let text = "fn a(b: &BackendSpec) { m!(BackendSpec::File) }\n";
        for path in ["crates/model/src/backend.rs", "crates/a/tests/b.rs"] {
            assert_eq!(check(&Tree::fixture(&[(path, text)])), [], "{path}");
        }
    }
}
