//! Rule of documents and comments: they name files that exist, because a map with wrong roads is
//! worse than none.

use super::{Finding, Tree};

/// Endings that make a word in backticks a file name.
const FILE_ENDINGS: &[&str] = &[".rs", ".toml", ".md", ".c", ".sh"];

/// Documents in which every path in backticks must exist.
const MAPS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", THREATS];

/// Document that names tests. Each must be a function.
const THREATS: &str = "docs/threat-model.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|f| f.path.ends_with(".md")) {
        let is_map = MAPS.contains(&file.path.as_str());
        for (index, line) in file.text.lines().enumerate() {
            let named = if is_map { code_spans(line) } else { Vec::new() };
            let missing = named
                .iter()
                .flat_map(|span| paths_in(tree, span))
                .filter(|path| !is_known(tree, path));
            let broken = links(line)
                .into_iter()
                .filter_map(|link| broken_link(tree, &file.path, link));
            for path in missing.chain(broken) {
                findings.push(Finding {
                    path: file.path.clone(),
                    line: index + 1,
                    rule: "named-path",
                    message: format!("{path} does not exist: correct the document"),
                });
            }
        }
    }
    findings.extend(paths_in_comments(tree));
    findings.extend(missing_tests(tree));
    findings.extend(examples_that_nobody_runs(tree));
    findings
}

/// Finds paths of Rust files in comments that lead nowhere: from the root, as a tail, or with `..`
/// from the file itself. A name without a folder may be a user's file.
fn paths_in_comments(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        for (index, line) in file.text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else {
                continue;
            };
            let spans = code_spans(comment).into_iter();
            let named = spans.filter(|span| span.contains('/') && span.ends_with(".rs"));
            let missing = named.filter(|span| match span.starts_with("..") {
                true => broken_link(tree, &file.path, span).is_some(),
                false => paths_in(tree, span)
                    .iter()
                    .any(|path| !is_known(tree, path)),
            });
            findings.extend(missing.map(|path| Finding {
                path: file.path.clone(),
                line: index + 1,
                rule: "named-path",
                message: format!("{path} does not exist: correct the comment"),
            }));
        }
    }
    findings
}

/// Finds code in the documentation of items. Documentation tests are not part of the suite, because
/// each crate would be compiled once more for them. A drawing must be marked `text`, and an example
/// must be a test.
fn examples_that_nobody_runs(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        let mut is_inside = false;
        for (index, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            let comment = line.strip_prefix("///").or(line.strip_prefix("//!"));
            let Some(language) = comment.and_then(|c| c.trim_start().strip_prefix("```")) else {
                continue;
            };
            is_inside = !is_inside;
            if is_inside && language != "text" {
                findings.push(Finding {
                    path: file.path.clone(),
                    line: index + 1,
                    rule: "example",
                    message:
                        "examples in documentation are not run: make the example a test, or mark a drawing \
                         as ```text"
                            .into(),
                });
            }
        }
    }
    findings
}

/// Finds names of tests in the threat model that no function has. A word with three underscores or
/// more is such a name, and prose has none.
fn missing_tests(tree: &Tree) -> Vec<Finding> {
    let is_name = |span: &&str| {
        span.matches('_').count() >= 3
            && span
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let mut findings = Vec::new();
    for (index, line) in tree.text(THREATS).unwrap_or_default().lines().enumerate() {
        for name in code_spans(line).into_iter().filter(is_name) {
            let head = format!("fn {name}(");
            if !tree.rust().any(|(file, _)| file.text.contains(&head)) {
                findings.push(Finding {
                    path: THREATS.into(),
                    line: index + 1,
                    rule: "named-test",
                    message: format!(
                        "test `{name}` does not exist: write it, or correct the document"
                    ),
                });
            }
        }
    }
    findings
}

/// Returns the words between backticks.
fn code_spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// Returns the paths that a code span names. Braces are expanded: `{a,b}.rs`.
fn paths_in(tree: &Tree, span: &str) -> Vec<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./{},".contains(c);
    if span.is_empty()
        || !span.chars().all(is_plain)
        || span.starts_with('/')
        || span.contains("..")
    {
        return Vec::new();
    }
    let first = span.split('/').next().unwrap_or(span);
    let below_top = span.contains('/')
        && !first.is_empty()
        && tree.paths().any(|p| p.split('/').next() == Some(first));
    if below_top
        || FILE_ENDINGS
            .iter()
            .any(|end| span.len() > end.len() && span.ends_with(end))
    {
        expand(span)
    } else {
        Vec::new()
    }
}

fn expand(span: &str) -> Vec<String> {
    let (Some(open), Some(close)) = (span.find('{'), span.find('}')) else {
        return vec![span.to_owned()];
    };
    if close < open {
        return vec![span.to_owned()];
    }
    let alternatives = span[open + 1..close].split(',');
    alternatives
        .flat_map(|word| expand(&format!("{}{word}{}", &span[..open], &span[close + 1..])))
        .collect()
}

/// Reports whether a path is known: from the root, or as a tail that is unique enough for a reader,
/// like `target/login.rs`.
fn is_known(tree: &Tree, path: &str) -> bool {
    tree.exists(path)
        || tree.paths().any(|p| {
            p.strip_suffix(path)
                .is_some_and(|front| front.ends_with('/'))
        })
}

/// Returns the targets of `[text](target)`.
fn links(line: &str) -> Vec<&str> {
    line.match_indices("](")
        .filter_map(|(at, _)| line[at + 2..].split(')').next())
        .collect()
}

fn broken_link(tree: &Tree, document: &str, link: &str) -> Option<String> {
    let link = link.split('#').next().unwrap_or(link);
    if link.is_empty() || link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    let path = parts.join("/");
    (!tree.exists(&path)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(document: &str, text: &str) -> Vec<String> {
        let files = [
            (document, text),
            ("crates/iscsi/src/target/login.rs", "//! x\n"),
            ("crates/iscsi/src/chap.rs", "//! x\n"),
        ];
        check(&Tree::fixture(&files))
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    #[test]
    fn a_map_names_what_exists() {
        assert!(
            missing(
                "ARCHITECTURE.md",
                "`crates/iscsi/src/` `target/login.rs` `chap.rs` `Step::Read` `a/b`"
            )
            .is_empty()
        );
        assert!(
            missing(
                "ARCHITECTURE.md",
                "`crates/iscsi/src/{chap,target/login}.rs`"
            )
            .is_empty()
        );
        assert_eq!(
            missing("ARCHITECTURE.md", "`crates/iscsi/src/{chap,login}.rs`").len(),
            1
        );
        assert_eq!(
            missing("ARCHITECTURE.md", "`crates/scsi/src/` and `logins.rs`").len(),
            2
        );
    }

    #[test]
    fn a_comment_names_paths_that_exist() {
        let right = "//! `target/login.rs` `../chap.rs` `mine.rs` `a/b`\nfn a() {}\n";
        assert!(missing("crates/iscsi/src/target/session.rs", right).is_empty());
        let wrong = "fn a() {\n    // `pool/login.rs` and `../login.rs`\n}\n";
        assert_eq!(
            missing("crates/iscsi/src/target/session.rs", wrong).len(),
            2
        );
    }

    #[test]
    fn tests_that_the_threat_model_names_exist() {
        let files = [
            (
                THREATS,
                "`text_without_nul_is_refused` `is_gone_for_ever_now` `text_keys`",
            ),
            (
                "a.rs",
                "//! x\n#[test]\nfn text_without_nul_is_refused() {}\n",
            ),
        ];
        let findings = check(&Tree::fixture(&files));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("is_gone_for_ever_now"));
    }

    #[test]
    fn code_in_documentation_is_a_drawing_or_a_test() {
        let drawn = "//! x\n/// ```text\n/// a | b\n/// ```\nfn a() {}\n";
        let example = "//! x\n//!\n//! ```\n//! a();\n//! ```\nfn a() {}\n";
        assert!(check(&Tree::fixture(&[("a.rs", drawn)])).is_empty());
        let findings = check(&Tree::fixture(&[("a.rs", example)]));
        assert_eq!((findings.len(), findings[0].line), (1, 3));
    }

    #[test]
    fn other_documents_may_name_a_users_files_but_links_must_work() {
        assert!(
            missing(
                "docs/a.md",
                "`multipath.conf.md` [x](../crates/iscsi/) [y](https://example.com/z)"
            )
            .is_empty()
        );
        assert_eq!(missing("docs/a.md", "[x](b.md#part)").len(), 1);
    }
}
