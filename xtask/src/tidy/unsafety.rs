//! Rule of unsafety: `unsafe` lives only in the few files that need it, which are named here. The
//! compiler's lint asks for a `// SAFETY:` at each block.

use proc_macro2::TokenTree;

use super::{Finding, Tree};

/// Files that may hold `unsafe`, each with the reason.
const ALLOWED: &[(&str, &str)] = &[
    (
        "crates/net/src/tcp_info.rs",
        "TCP_INFO, which no safe crate in use reads",
    ),
    (
        "crates/process/src/clock.rs",
        "adjtimex, which no safe crate in use calls",
    ),
    (
        "crates/pages/src/page.rs",
        "reference-counted pages that are one pointer",
    ),
    (
        "crates/pages/src/slab.rs",
        "the source of pages: raw memory and its counts",
    ),
    (
        "crates/block/src/uring.rs",
        "io_uring: the kernel reads and writes our buffers",
    ),
    (
        "crates/pools/examples/pool_load/counts.rs",
        "the benchmark's allocator, which counts",
    ),
    (
        "crates/backends/tests/block/driver.rs",
        "polls the descriptor that a lane lends",
    ),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, ALLOWED)
}

fn check_against(tree: &Tree, allowed: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        if allowed.iter().any(|(path, _)| *path == file.path) {
            continue;
        }
        let mut is_known = false;
        rust.each_token(|token, _| {
            let TokenTree::Ident(word) = token else { return };
            let what = match word.to_string().as_str() {
                "unsafe" => "`unsafe`",
                "unsafe_code" => "lifting the `unsafe_code` lint",
                _ => return,
            };
            if std::mem::replace(&mut is_known, true) {
                return; // the first place is enough
            }
            findings.push(Finding {
                path: file.path.clone(),
                line: word.span().start().line,
                rule: "unsafe",
                message: format!(
                    "{what} is for the files listed in xtask/src/tidy/unsafety.rs: use a safe crate, or add this file there with its reason"
                ),
            });
        });
    }
    for (path, _) in allowed {
        if !tree.exists(path) {
            findings.push(Finding {
                path: "xtask/src/tidy/unsafety.rs".into(),
                line: 0,
                rule: "unsafe",
                message: format!("{path} is listed but does not exist: remove it from the list"),
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_is_found_in_code_and_in_macros_but_not_in_words() {
        let text = "//! unsafe in a comment\nfn a() { m!(unsafe { x() }); }\nconst S: &str = \"unsafe\";\n#[allow(unsafe_code)]\nfn b() {}\n";
        let tree = Tree::fixture(&[("crates/a/src/b.rs", text)]);
        let lines: Vec<usize> = check_against(&tree, &[]).iter().map(|f| f.line).collect();
        assert_eq!(lines, [2]);
        let lifted = Tree::fixture(&[("a.rs", "//! x\n#![allow(unsafe_code)]\n")]);
        assert_eq!(check_against(&lifted, &[]).len(), 1);
        assert_eq!(
            check_against(&tree, &[("crates/a/src/b.rs", "a reason")]),
            []
        );
    }

    #[test]
    fn a_listed_file_must_exist() {
        let findings = check_against(&Tree::fixture(&[]), &[("gone.rs", "a reason")]);
        assert_eq!(findings.len(), 1);
    }
}
