//! Folders that a person takes in at a glance: few files each, and no ring of imports between them.
//!
//! A folder below another belongs to it, as a module belongs to its parent: they may name each
//! other. Two folders of which neither is in the other must not, however long the way round.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::Paths;
use super::tree::RustFile;
use super::{Finding, Tree};
use syn::visit::Visit;

/// The most Rust files that a folder may have.
const MOST_FILES: usize = 25;

/// Path of a module from the root of its crate.
type Module = Vec<String>;

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
    let mut crates: BTreeMap<&str, Vec<(&str, &RustFile)>> = BTreeMap::new();
    for (file, rust) in tree.rust() {
        let Some((root, path)) = file.path.split_once("/src/") else {
            continue;
        };
        if !rust.is_test {
            crates.entry(root).or_default().push((path, rust));
        }
    }
    crates
        .into_iter()
        .flat_map(|(root, files)| Crate::new(&files).findings(root))
        .collect()
}

/// The modules of a crate, and which of them names which.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Module, String>,
    /// Names that a module has from elsewhere, with their paths from the root.
    names: BTreeMap<(Module, String), Module>,
    /// Imports between rooms that are not nested, each with a file and line that has it.
    imports: BTreeMap<(Module, Module), (String, usize)>,
}

impl Crate {
    fn new(files: &[(&str, &RustFile)]) -> Self {
        let mut found = Self::default();
        let tests: Vec<Module> = files.iter().flat_map(test_modules).collect();
        let is_test = |here: &Module| tests.iter().any(|test| here.starts_with(test));
        for (path, _) in files {
            found.modules.insert(module(path), (*path).to_owned());
        }
        let mut named = Vec::new();
        for (path, rust) in files {
            let here = module(path);
            if is_test(&here) {
                continue;
            }
            let mut paths = Paths::default();
            paths.visit_file(&rust.syntax);
            for (segments, line) in paths.found {
                if rust.in_test(line) {
                    continue;
                }
                let Some(target) = found.absolute(&here, &segments) else {
                    continue;
                };
                if let Some(name) = target.last().cloned() {
                    found
                        .names
                        .entry((here.clone(), name))
                        .or_insert_with(|| target.clone());
                }
                named.push((here.clone(), target, (*path).to_owned(), line));
            }
        }
        for (here, target, path, line) in named {
            let (from, to) = (found.room(&here), found.room(&found.owner(&target, 8)));
            if !from.starts_with(&to) && !to.starts_with(&from) {
                found.imports.entry((from, to)).or_insert((path, line));
            }
        }
        found
    }

    /// Path of a name from the root of the crate; `None` for names of other crates.
    fn absolute(&self, here: &Module, segments: &[String]) -> Option<Module> {
        let climbs = segments.iter().take_while(|s| *s == "super").count();
        let first = segments.first()?.as_str();
        let (base, rest) = match first {
            "crate" => (Module::new(), &segments[1..]),
            "self" => (here.clone(), &segments[1..]),
            "super" => (
                here[..here.len().checked_sub(climbs)?].to_vec(),
                &segments[climbs..],
            ),
            _ => {
                let child = [here.as_slice(), &[first.to_owned()]].concat();
                self.modules.contains_key(&child).then_some(())?;
                (here.clone(), segments)
            }
        };
        Some([base.as_slice(), rest].concat())
    }

    /// Module that defines a name, through at most `hops` re-exports.
    fn owner(&self, target: &Module, hops: usize) -> Module {
        let prefixes = (0..=target.len()).rev().map(|len| target[..len].to_vec());
        let Some(module) = prefixes
            .into_iter()
            .find(|prefix| self.modules.contains_key(prefix))
        else {
            return Module::new();
        };
        let Some(name) = target.get(module.len()) else {
            return module;
        };
        match self.names.get(&(module.clone(), name.clone())) {
            Some(from) if hops > 0 && from != target => self.owner(from, hops - 1),
            _ => module,
        }
    }

    /// Folder that a module belongs to. A file with a folder of its name belongs to that folder.
    fn room(&self, module: &Module) -> Module {
        let is_parent = self
            .modules
            .keys()
            .any(|other| other.len() > module.len() && other.starts_with(module));
        if is_parent || module.is_empty() {
            module.clone()
        } else {
            module[..module.len() - 1].to_vec()
        }
    }

    fn findings(&self, root: &str) -> Vec<Finding> {
        let mut edges: BTreeMap<&Module, Vec<&Module>> = BTreeMap::new();
        for (from, to) in self.imports.keys() {
            edges.entry(from).or_default().push(to);
        }
        let reaches = |from: &Module, to: &Module| {
            let mut seen = BTreeSet::from([from]);
            let mut next = vec![from];
            while let Some(room) = next.pop() {
                for beyond in edges.get(room).into_iter().flatten() {
                    if *beyond == to {
                        return true;
                    }
                    if seen.insert(beyond) {
                        next.push(beyond);
                    }
                }
            }
            false
        };
        let in_rings = self
            .imports
            .iter()
            .filter(|((from, to), _)| reaches(to, from));
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
}

/// Modules in files of their own that exist in tests only.
fn test_modules((path, rust): &(&str, &RustFile)) -> Vec<Module> {
    let here = module(path);
    let items = rust.syntax.items.iter();
    let modules = items.filter_map(|item| match item {
        syn::Item::Mod(item) if rust.in_test(item.ident.span().start().line) => Some(item),
        _ => None,
    });
    modules
        .map(|item| [here.as_slice(), &[item.ident.to_string()]].concat())
        .collect()
}

fn module(path: &str) -> Module {
    let path = path.trim_end_matches(".rs");
    let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
    if matches!(
        parts.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        parts.pop();
    }
    parts
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
