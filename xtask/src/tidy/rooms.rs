//! Folders that a person takes in at a glance: few files each, and no ring of imports between them.
//!
//! A folder below another belongs to it, as a module belongs to its parent: they may name each
//! other. Two folders of which neither is in the other must not, however long the way round.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{self, Module, Modules, reached};
use super::{Finding, Tree};

/// The most Rust files that a folder may have.
const MOST_FILES: usize = 25;

/// Folders with too many Rust files.
pub(super) fn sizes(tree: &Tree) -> Vec<Finding> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for (file, _) in tree.rust() {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *folders.entry(folder).or_default() += 1;
    }
    let large = folders.into_iter().filter(|(_, files)| *files > MOST_FILES);
    large
        .map(|(folder, files)| Finding {
            path: folder.to_owned(),
            line: 0,
            rule: "folder-size",
            message: format!(
                "{files} Rust files, {MOST_FILES} allowed: move files that belong together into a folder"
            ),
        })
        .collect()
}

/// Rings of imports between folders of a crate.
pub(super) fn rings(tree: &Tree) -> Vec<Finding> {
    let crates = modules::of_crates(tree);
    crates
        .iter()
        .flat_map(|(root, modules)| findings(root, modules))
        .collect()
}

/// Imports between rooms that are not nested, each with a file and line that has it.
fn imports(modules: &Modules) -> BTreeMap<(Module, Module), (&str, usize)> {
    let mut found = BTreeMap::new();
    for import in &modules.imports {
        let (from, to) = (modules.room(&import.from), modules.room(&import.to));
        if !from.starts_with(&to) && !to.starts_with(&from) {
            found
                .entry((from, to))
                .or_insert((import.path.as_str(), import.line));
        }
    }
    found
}

fn findings(root: &str, modules: &Modules) -> Vec<Finding> {
    let imports = imports(modules);
    let mut edges: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (from, to) in imports.keys() {
        edges.entry(from).or_default().insert(to);
    }
    let in_ring = |from, to| reached(&edges, to).contains(from);
    let in_rings = imports.iter().filter(|((from, to), _)| in_ring(from, to));
    in_rings
        .map(|((from, to), (path, line))| Finding {
            path: format!("{root}/src/{path}"),
            line: *line,
            rule: "folder-ring",
            message: format!(
                "`{}` imports `{}`, which imports it in turn: move the shared code to one side",
                from.join("/"),
                to.join("/")
            ),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let findings = rings(&Tree::fixture(files));
        findings.into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn two_folders_that_name_each_other_are_a_ring() {
        let one_way = [
            ("crates/x/src/lib.rs", "//! x\nmod a; mod b;\n"),
            ("crates/x/src/a/mod.rs", "//! x\nuse crate::b::B;\n"),
            ("crates/x/src/b/mod.rs", "//! x\npub struct B;\n"),
        ];
        assert!(found(&one_way).is_empty());
        let mut ring = one_way.to_vec();
        ring.push((
            "crates/x/src/b/c.rs",
            "//! x\nfn f() { super::super::a::f() }\n",
        ));
        ring.push(("crates/x/src/a/d.rs", "//! x\n"));
        assert_eq!(
            found(&ring),
            ["crates/x/src/a/mod.rs", "crates/x/src/b/c.rs"]
        );
    }

    #[test]
    fn a_folder_and_one_within_it_may_name_each_other() {
        let files = [
            ("crates/x/src/lib.rs", "//! x\nmod a;\n"),
            (
                "crates/x/src/a.rs",
                "//! x\nmod b;\nuse b::c::C;\npub struct A;\n",
            ),
            ("crates/x/src/a/b.rs", "//! x\nmod c;\n"),
            (
                "crates/x/src/a/b/c.rs",
                "//! x\nuse crate::a::A;\npub struct C;\n",
            ),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn a_ring_through_a_name_that_is_passed_on_is_found() {
        let files = [
            (
                "crates/x/src/lib.rs",
                "//! x\nmod a; mod b;\npub use b::c::C;\n",
            ),
            (
                "crates/x/src/a/mod.rs",
                "//! x\nmod d;\nuse crate::C;\npub struct A;\n",
            ),
            ("crates/x/src/a/d.rs", "//! x\n"),
            ("crates/x/src/b/mod.rs", "//! x\npub mod c;\n"),
            (
                "crates/x/src/b/c.rs",
                "//! x\nuse crate::a::A;\npub struct C;\n",
            ),
        ];
        assert_eq!(found(&files).len(), 2);
    }

    #[test]
    fn a_folder_that_passes_a_name_on_imports_it() {
        let files = [
            ("crates/x/src/lib.rs", "//! x\nmod a; mod b;\n"),
            (
                "crates/x/src/a/mod.rs",
                "//! x\npub use crate::b::B;\npub struct A;\n",
            ),
            ("crates/x/src/a/d.rs", "//! x\n"),
            (
                "crates/x/src/b/mod.rs",
                "//! x\nuse crate::a::A;\npub struct B;\n",
            ),
            ("crates/x/src/b/e.rs", "//! x\n"),
        ];
        assert_eq!(found(&files).len(), 2);
    }

    #[test]
    fn tests_may_look_where_they_like() {
        let files = [
            ("crates/x/src/lib.rs", "//! x\nmod a; mod b;\n"),
            ("crates/x/src/a/mod.rs", "//! x\nuse crate::b::B;\n"),
            (
                "crates/x/src/b/mod.rs",
                "//! x\npub struct B;\n#[cfg(test)]\nmod tests { use crate::a::A; }\n",
            ),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn a_module_of_tests_in_a_file_of_its_own_is_a_test() {
        let files = [
            ("crates/x/src/lib.rs", "//! x\nmod a; mod b;\n"),
            ("crates/x/src/a/mod.rs", "//! x\nuse crate::b::B;\n"),
            (
                "crates/x/src/b/mod.rs",
                "//! x\npub struct B;\n#[cfg(test)]\nmod trials;\n",
            ),
            ("crates/x/src/b/trials.rs", "//! x\nuse crate::a::A;\n"),
            ("crates/x/src/a/c.rs", "//! x\n"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn a_folder_has_its_number_of_files() {
        let names: Vec<String> = (0..=MOST_FILES).map(|n| format!("a/{n}.rs")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), "//! x\n")).collect();
        assert_eq!(sizes(&Tree::fixture(&files)).len(), 1);
        assert!(sizes(&Tree::fixture(&files[1..])).is_empty());
    }
}
