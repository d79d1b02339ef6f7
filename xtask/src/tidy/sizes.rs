//! Rules of leading `//!`, file size and function size, which keep a file readable in one sitting.

use syn::spanned::Spanned;
use syn::visit::Visit;

use super::{Finding, Tree};

const FILE_LINES: usize = 1000;
const FUNCTION_LINES: usize = 100;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        let mut report = |line, rule, message| {
            findings.push(Finding {
                path: file.path.clone(),
                line,
                rule,
                message,
            });
        };
        if !file.text.starts_with("//! ") {
            report(
                1,
                "leading-doc",
                "the first line must be `//! …`: say what the file is and why it exists".into(),
            );
        }
        let lines = file.text.lines().count() - rust.test_line_count();
        if lines > FILE_LINES && !rust.is_test {
            let message =
                format!("{lines} lines outside tests, {FILE_LINES} allowed: split it by purpose");
            report(1, "file-size", message);
        }
        let mut functions = Functions::default();
        functions.visit_file(&rust.syntax);
        for (name, line, length) in functions.found {
            if length > FUNCTION_LINES && !rust.in_test(line) {
                let message = format!(
                    "`{name}` has {length} lines, {FUNCTION_LINES} allowed: give its parts names"
                );
                report(line, "function-size", message);
            }
        }
    }
    findings
}

/// Collector of `(name, first line, lines)` from signature to closing brace.
#[derive(Default)]
struct Functions {
    found: Vec<(String, usize, usize)>,
}

impl Functions {
    fn push(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let last = block.span().end().line;
        self.found
            .push((signature.ident.to_string(), first, last - first + 1));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.push(&item.sig, &item.block);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.push(&item.sig, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.push(&item.sig, block);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(files: &[(&str, &str)]) -> Vec<(&'static str, usize)> {
        check(&Tree::fixture(files))
            .into_iter()
            .map(|f| (f.rule, f.line))
            .collect()
    }

    #[test]
    fn a_file_must_say_what_it_is() {
        assert_eq!(
            rules(&[("a.rs", "// no\nfn a() {}\n")]),
            [("leading-doc", 1)]
        );
        assert_eq!(rules(&[("a.rs", "//! yes\nfn a() {}\n")]), []);
        assert_eq!(rules(&[("a.md", "no matter")]), []);
    }

    #[test]
    fn only_lines_outside_tests_count() {
        let body = "const A: u8 = 1;\n".repeat(999);
        assert_eq!(rules(&[("a.rs", &format!("//! x\n{body}"))]), []);
        assert_eq!(
            rules(&[("a.rs", &format!("//! x\n{body}const B: u8 = 1;\n"))]),
            [("file-size", 1)]
        );
        assert_eq!(
            rules(&[(
                "a.rs",
                &format!("//! x\n#[cfg(test)]\nmod t {{\n{body}{body}}}\n")
            )]),
            []
        );
        assert_eq!(
            rules(&[("crates/a/tests/b.rs", &format!("//! x\n{body}{body}"))]),
            []
        );
    }

    #[test]
    fn functions_are_measured_wherever_they_stand() {
        let body = "    f();\n".repeat(98);
        assert_eq!(
            rules(&[("a.rs", &format!("//! x\nfn a() {{\n{body}}}\n"))]),
            []
        );
        let long = format!("{body}    f();\n");
        assert_eq!(
            rules(&[("a.rs", &format!("//! x\nfn a() {{\n{long}}}\n"))]),
            [("function-size", 2)]
        );
        assert_eq!(
            rules(&[(
                "a.rs",
                &format!("//! x\nimpl A {{\nfn a() {{\n{long}}}\n}}\n")
            )]),
            [("function-size", 3)]
        );
        assert_eq!(
            rules(&[(
                "a.rs",
                &format!("//! x\ntrait A {{\nfn a() {{\n{long}}}\n}}\n")
            )]),
            [("function-size", 3)]
        );
        assert_eq!(
            rules(&[("a.rs", &format!("//! x\n#[test]\nfn a() {{\n{long}}}\n"))]),
            []
        );
    }

    #[test]
    fn documentation_and_attributes_do_not_count_as_function_lines() {
        let docs = "/// x\n".repeat(50);
        let body = "    f();\n".repeat(98);
        assert_eq!(
            rules(&[(
                "a.rs",
                &format!("//! x\n{docs}#[inline]\nfn a() {{\n{body}}}\n")
            )]),
            []
        );
    }
}
