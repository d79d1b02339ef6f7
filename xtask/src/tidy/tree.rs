//! Input of the rules: the tracked text files, and the Rust among them parsed once.

use std::path::Path;
use std::process::Command;

use proc_macro2::{LineColumn, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::Visit;

use super::Finding;

/// Tracked text file.
pub(crate) struct TextFile {
    /// Path relative to the root, with `/`.
    pub path: String,
    pub text: String,
    /// Syntax tree, or the reason why there is none. `None` if the file is not Rust.
    pub rust: Option<Result<RustFile, (usize, String)>>,
}

/// Rust file after parsing.
pub(crate) struct RustFile {
    pub syntax: syn::File,
    pub tokens: TokenStream,
    /// Whether the whole file is test code: below `tests/` or named `tests.rs`.
    pub is_test: bool,
    /// First and last lines of items under `#[cfg(test)]` or `#[test]`.
    test_lines: Vec<(usize, usize)>,
}

impl RustFile {
    fn parse(path: &str, text: &str) -> Result<Self, (usize, String)> {
        let located = |e: syn::Error| (e.span().start().line, e.to_string());
        let syntax = syn::parse_file(text).map_err(located)?;
        let tokens = text
            .parse::<TokenStream>()
            .map_err(|e| (e.span().start().line, e.to_string()))?;
        let mut finder = TestItems::default();
        finder.visit_file(&syntax);
        Ok(Self {
            syntax,
            tokens,
            is_test: is_test_path(path),
            test_lines: finder.lines,
        })
    }

    /// Reports whether this line only exists in tests.
    pub(crate) fn in_test(&self, line: usize) -> bool {
        self.is_test
            || self
                .test_lines
                .iter()
                .any(|&(first, last)| (first..=last).contains(&line))
    }

    /// Returns the number of lines that only exist in tests (of a file that is not all test).
    pub(crate) fn test_line_count(&self) -> usize {
        let mut lines: Vec<usize> = self.test_lines.iter().flat_map(|&(a, b)| a..=b).collect();
        lines.sort_unstable();
        lines.dedup();
        lines.len()
    }

    /// Calls `f` with every token, groups entered, and with the next token in its group.
    pub(crate) fn each_token(&self, mut f: impl FnMut(&TokenTree, Option<&TokenTree>)) {
        fn walk(stream: TokenStream, f: &mut impl FnMut(&TokenTree, Option<&TokenTree>)) {
            let trees: Vec<TokenTree> = stream.into_iter().collect();
            for (i, tree) in trees.iter().enumerate() {
                f(tree, trees.get(i + 1));
                if let TokenTree::Group(group) = tree {
                    walk(group.stream(), f);
                }
            }
        }
        walk(self.tokens.clone(), &mut f);
    }
}

fn is_test_path(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || path
            .split('/')
            .any(|part| part == "tests" || part == "benches")
}

/// Finder of items that only exist in tests.
#[derive(Default)]
struct TestItems {
    lines: Vec<(usize, usize)>,
}

impl<'ast> Visit<'ast> for TestItems {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(i) => &i.attrs,
            syn::Item::Fn(i) => &i.attrs,
            syn::Item::Impl(i) => &i.attrs,
            syn::Item::Struct(i) => &i.attrs,
            syn::Item::Use(i) => &i.attrs,
            syn::Item::Macro(i) => &i.attrs,
            syn::Item::Const(i) => &i.attrs,
            _ => return syn::visit::visit_item(self, item),
        };
        if attributes.iter().any(is_test_attribute) {
            let (start, end): (LineColumn, LineColumn) = (item.span().start(), item.span().end());
            self.lines.push((start.line, end.line));
        } else {
            syn::visit::visit_item(self, item);
        }
    }
}

fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    list.path.is_ident("cfg")
        && list
            .tokens
            .clone()
            .into_iter()
            .next()
            .is_some_and(|t| matches!(t, TokenTree::Ident(i) if i == "test"))
}

/// Every tracked text file.
pub(crate) struct Tree {
    files: Vec<TextFile>,
    /// All tracked paths, binary files too.
    paths: Vec<String>,
}

impl Tree {
    /// Reads the tracked files (and new ones that are not ignored) below `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let output = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()
            .map_err(|e| format!("cannot run git to list the files: {e}"))?;
        if !output.status.success() {
            return Err(format!(
                "git ls-files failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
        let listing = String::from_utf8_lossy(&output.stdout);
        let mut paths: Vec<String> = listing
            .split('\0')
            .filter(|p| !p.is_empty())
            .map(str::to_owned)
            .collect();
        paths.sort();
        paths.dedup();
        paths.retain(|path| root.join(path).is_file());
        let mut files = Vec::new();
        for path in &paths {
            let bytes =
                std::fs::read(root.join(path)).map_err(|e| format!("cannot read {path}: {e}"))?;
            if !path.starts_with("fuzz/corpus/")
                && let Ok(text) = String::from_utf8(bytes)
            {
                files.push((path.clone(), text));
            }
        }
        Ok(Self::from_files(files, paths))
    }

    fn from_files(files: Vec<(String, String)>, paths: Vec<String>) -> Self {
        let files = files
            .into_iter()
            .map(|(path, text)| {
                let rust = path.ends_with(".rs").then(|| RustFile::parse(&path, &text));
                TextFile { path, text, rust }
            })
            .collect();
        Self { files, paths }
    }

    /// Makes a tree of `(path, text)` pairs, for the rules' tests.
    #[cfg(test)]
    pub(crate) fn fixture(files: &[(&str, &str)]) -> Self {
        let paths = files.iter().map(|(p, _)| (*p).to_owned()).collect();
        Self::from_files(
            files
                .iter()
                .map(|(p, t)| ((*p).to_owned(), (*t).to_owned()))
                .collect(),
            paths,
        )
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter()
    }

    /// Returns the Rust files that parsed.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&TextFile, &RustFile)> {
        self.files
            .iter()
            .filter_map(|f| Some((f, f.rust.as_ref()?.as_ref().ok()?)))
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files
            .iter()
            .find(|f| f.path == path)
            .map(|f| f.text.as_str())
    }

    /// Reports whether a tracked file, or a folder that holds one, has this path.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.paths().any(|p| {
            p == path
                || p.strip_prefix(path)
                    .is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// Reports whether the finding's line or the one before carries `tidy-allow: RULE: reason`.
    pub(crate) fn is_excused(&self, finding: &Finding) -> bool {
        let Some(text) = self.text(&finding.path) else {
            return false;
        };
        let lines: Vec<&str> = text.lines().collect();
        let marker = format!("tidy-allow: {}: ", finding.rule);
        [finding.line, finding.line.wrapping_sub(1)]
            .iter()
            .filter_map(|&n| lines.get(n.checked_sub(1)?))
            .any(|line| {
                line.split_once(&marker)
                    .is_some_and(|(_, reason)| reason.trim().len() >= 10)
            })
    }
}

/// Returns Rust files that do not parse, about which no other rule can say anything.
pub(crate) fn unreadable(tree: &Tree) -> Vec<Finding> {
    let broken = tree.files().filter_map(|f| match &f.rust {
        Some(Err((line, why))) => Some((f, *line, why)),
        _ => None,
    });
    broken
        .map(|(file, line, why)| Finding {
            path: file.path.clone(),
            line,
            rule: "parse",
            message: format!("this is not valid Rust: {why}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_items_are_told_from_the_rest() {
        let text = "//! x\nfn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n#[cfg(feature = \"test\")]\nfn c() {}\n";
        let file = RustFile::parse("crates/x/src/a.rs", text).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(!file.in_test(2));
        assert!(file.in_test(5));
        assert!(!file.in_test(8));
        assert_eq!(file.test_line_count(), 4);
        assert!(RustFile::parse("crates/x/tests/a.rs", text).is_ok_and(|f| f.in_test(2)));
    }

    #[test]
    fn broken_rust_is_one_finding_with_its_line() {
        let tree = Tree::fixture(&[("a.rs", "//! x\nfn a( {\n")]);
        let findings = unreadable(&tree);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
    }

    #[test]
    fn an_excuse_needs_the_rule_and_a_reason() {
        let marker = "// tidy-allow";
        let text = format!(
            "{marker}: machine-path: a folder inside the guest\nx\ny\n{marker}: machine-path: no\nz\n"
        );
        let tree = Tree::fixture(&[("a.sh", &text)]);
        let at = |line, rule| {
            tree.is_excused(&Finding {
                path: "a.sh".into(),
                line,
                rule,
                message: String::new(),
            })
        };
        assert!(at(2, "machine-path"));
        assert!(!at(2, "names"));
        assert!(!at(3, "machine-path"));
        assert!(!at(5, "machine-path"));
    }

    #[test]
    fn folders_exist_when_they_hold_a_file() {
        let tree = Tree::fixture(&[("docs/a/b.md", "")]);
        assert!(tree.exists("docs/a/"));
        assert!(tree.exists("docs/a/b.md"));
        assert!(!tree.exists("docs/a/b"));
        assert!(!tree.exists("doc"));
    }
}
