//! Rule of names: a module or type must say what it holds or does.

use syn::visit::Visit;

use super::{Finding, Tree};

/// Names of files, folders and modules that tell a newcomer nothing.
const EMPTY_NAMES: &[&str] = &[
    "util",
    "utils",
    "utility",
    "utilities",
    "common",
    "helper",
    "helpers",
    "manager",
    "managers",
    "misc",
    "stuff",
];

/// Endings of type names that add nothing to the words before them.
const EMPTY_ENDINGS: &[&str] = &["Manager", "Helper", "Util", "Utils"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in tree.paths() {
        for part in path.split('/') {
            let stem = part.split('.').next().unwrap_or(part);
            if EMPTY_NAMES.contains(&stem.to_lowercase().as_str()) {
                findings.push(finding(path, 0, stem));
            }
        }
    }
    for (file, rust) in tree.rust() {
        let mut names = Names::default();
        names.visit_file(&rust.syntax);
        findings.extend(
            names
                .found
                .iter()
                .map(|(name, line)| finding(&file.path, *line, name)),
        );
    }
    findings
}

fn finding(path: &str, line: usize, name: &str) -> Finding {
    Finding {
        path: path.to_owned(),
        line,
        rule: "names",
        message: format!("`{name}` says nothing: name it after its content or its work"),
    }
}

#[derive(Default)]
struct Names {
    found: Vec<(String, usize)>,
}

impl Names {
    fn look_at_type(&mut self, ident: &syn::Ident) {
        let name = ident.to_string();
        if EMPTY_ENDINGS.iter().any(|end| name.ends_with(end)) {
            self.found.push((name, ident.span().start().line));
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        if EMPTY_NAMES.contains(&name.as_str()) {
            self.found.push((name, item.ident.span().start().line));
        }
        syn::visit::visit_item_mod(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.look_at_type(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.look_at_type(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.look_at_type(&item.ident);
        syn::visit::visit_item_trait(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_names_are_found_in_paths_modules_and_types() {
        let tree = Tree::fixture(&[
            ("crates/a/src/utils.rs", "//! x\n"),
            ("crates/a/src/common/mod.rs", "//! x\n"),
            (
                "crates/a/src/b.rs",
                "//! x\nmod helper {}\nstruct SessionManager;\nstruct Session;\nfn manager() {}\n",
            ),
        ]);
        let found: Vec<(String, usize)> =
            check(&tree).into_iter().map(|f| (f.path, f.line)).collect();
        let path = |p: &str, line| (format!("crates/a/src/{p}"), line);
        assert_eq!(
            found,
            [
                path("utils.rs", 0),
                path("common/mod.rs", 0),
                path("b.rs", 2),
                path("b.rs", 3)
            ]
        );
    }
}
