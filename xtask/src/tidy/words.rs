//! Rule of words that must not be committed: unfinished work, and traces of the author's machine.

use proc_macro2::TokenTree;

use super::{Finding, Tree};

/// Macros that stand for code that was not written, or print while debugging.
const UNFINISHED_MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Comments that stand for unfinished work. They are spelled in pieces so that this file passes.
const UNFINISHED_WORDS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Starts of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/tmp/ba", "sh_jobs"),
];

/// First labels of host names that serve packages to one network.
const REGISTRY_HOSTS: &[&str] = &[
    "artifactory",
    "mirror",
    "registry",
    "index",
    "nexus",
    "proxy",
    "crates-mirror",
    "devpi",
];

/// Finds unfinished work.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        rust.each_token(|token, next| {
            let (TokenTree::Ident(word), Some(TokenTree::Punct(mark))) = (token, next) else {
                return;
            };
            if mark.as_char() == '!' && UNFINISHED_MACROS.iter().any(|m| word == m) {
                findings.push(Finding {
                    path: file.path.clone(),
                    line: word.span().start().line,
                    rule: "unfinished",
                    message: format!(
                        "`{word}!` is not finished work: write it, or leave the feature out"
                    ),
                });
            }
        });
    }
    for file in tree.files() {
        for (index, line) in file.text.lines().enumerate() {
            for word in UNFINISHED_WORDS.iter().filter(|w| has_word(line, w)) {
                findings.push(Finding {
                    path: file.path.clone(),
                    line: index + 1,
                    rule: "unfinished",
                    message: format!(
                        "{word}: do it now, or describe the gap where users look for it"
                    ),
                });
            }
        }
    }
    findings
}

/// Finds paths and hosts of the author's machine or network.
pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        for (index, line) in file.text.lines().enumerate() {
            let mut report = |message| {
                findings.push(Finding {
                    path: file.path.clone(),
                    line: index + 1,
                    rule: "machine-path",
                    message,
                });
            };
            if let Some(start) = MACHINE_PATHS.iter().find(|p| has_absolute_path(line, p)) {
                report(format!(
                    "{start}… exists on one machine only: use a path relative to the repository or an option"
                ));
            }
            if let Some(host) = registry_host(line) {
                report(format!(
                    "{host} serves one network only: leave registries to each user's own cargo configuration"
                ));
            }
        }
    }
    findings
}

fn has_word(line: &str, word: &str) -> bool {
    let is_boundary = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        is_boundary(line[..at].chars().next_back())
            && is_boundary(line[at + word.len()..].chars().next())
    })
}

/// Reports whether the path starts here, rather than continuing a longer one or an address.
fn has_absolute_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        !line[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || "./_-~}>)$".contains(c))
    })
}

fn registry_host(line: &str) -> Option<&str> {
    line.match_indices("://").find_map(|(at, _)| {
        let rest = &line[at + 3..];
        let host = rest
            .split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '-'))
            .next()?;
        let first = host.split('.').next()?;
        REGISTRY_HOSTS.contains(&first).then_some(host)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(findings: Vec<Finding>) -> Vec<usize> {
        findings.iter().map(|f| f.line).collect()
    }

    #[test]
    fn unfinished_macros_are_found_in_code_only() {
        let text = format!(
            "//! x\nfn a() {{ {}!() }}\nfn b() {{ todo() }}\nfn c() {{ x != y }}\n",
            "todo"
        );
        assert_eq!(lines(check(&Tree::fixture(&[("a.rs", &text)]))), [2]);
    }

    #[test]
    fn unfinished_words_are_whole_words_in_any_text() {
        let word = UNFINISHED_WORDS[1];
        let text = format!("fine\n# {word}: later\n{word}S\n");
        assert_eq!(lines(check(&Tree::fixture(&[("a.sh", &text)]))), [2]);
    }

    #[test]
    fn machine_paths_are_absolute_ones() {
        let home = MACHINE_PATHS[0];
        let text = format!("cd {home}me\nsrc{home}x\n\"{home}a\"\nhttp://site.example{home}b\n");
        assert_eq!(
            lines(machine_paths(&Tree::fixture(&[("a.sh", &text)]))),
            [1, 3]
        );
    }

    #[test]
    fn registry_hosts_are_found_and_other_addresses_are_not() {
        let text = format!(
            "{}://{}.example.com/x\nhttps://docs.rs/x\niscsi://host:3260/\n",
            "https", REGISTRY_HOSTS[0]
        );
        assert_eq!(
            lines(machine_paths(&Tree::fixture(&[("config.toml", &text)]))),
            [1]
        );
    }
}
