//! Files that import each other in a ring: a reader of one must know all of them at once.
//!
//! A module and one within it may name each other, as a folder and one within it may. A line that
//! only passes a name on is no import of its file: a reader goes to the file that defines the name.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{self, Import, Module, Modules, reached};
use super::{Finding, Tree};

/// The most files that a ring of imports may have.
const MOST_FILES: usize = 10;

/// Crates with a limit of their own.
const LIMITS: [(&str, usize); 1] = [("crates/store", 6)];

/// Finds the rings of imports with too many files.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let crates = modules::of_crates(tree);
    let findings = crates.iter().flat_map(|(root, modules)| {
        let limit = LIMITS.iter().find(|(name, _)| name == root);
        let most = limit.map_or(MOST_FILES, |(_, most)| *most);
        let rings = rings(modules)
            .into_iter()
            .filter(move |ring| ring.len() > most);
        rings.map(move |ring| finding(root, modules, &ring, most))
    });
    findings.collect()
}

fn finding(root: &str, modules: &Modules, ring: &BTreeSet<&Module>, most: usize) -> Finding {
    let files: Vec<&str> = ring.iter().map(|module| modules.file(module)).collect();
    Finding {
        path: format!("{root}/src/{}", files.first().copied().unwrap_or_default()),
        line: 0,
        rule: "file-ring",
        message: format!(
            "{} files import each other in a ring, {most} allowed: let one side of an import go, \
             or move the code that both sides need below them: {}",
            files.len(),
            files.join(", ")
        ),
    }
}

/// Returns the sets of modules of which each reaches every other one by imports.
fn rings(modules: &Modules) -> Vec<BTreeSet<&Module>> {
    let mut edges: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for import in modules
        .imports
        .iter()
        .filter(|i| !nested(i) && !i.passes_on)
    {
        edges.entry(&import.from).or_default().insert(&import.to);
    }
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = edges
        .keys()
        .map(|from| (*from, reached(&edges, from)))
        .collect();
    let mut rings: Vec<BTreeSet<&Module>> = Vec::new();
    for (from, beyond) in &reached {
        if !beyond.contains(from) || rings.iter().any(|ring| ring.contains(from)) {
            continue;
        }
        let back = |to: &&&Module| reached.get(**to).is_some_and(|back| back.contains(from));
        rings.push(beyond.iter().filter(back).copied().collect());
    }
    rings
}

/// Reports whether one of the two modules lies within the other.
fn nested(import: &Import) -> bool {
    import.from.starts_with(&import.to) || import.to.starts_with(&import.from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Crate whose file N imports from file N + 1, and whose last one imports from the first.
    fn ring_of(number: usize) -> Vec<(String, String)> {
        ring_in("crates/x", number)
    }

    fn ring_in(root: &str, number: usize) -> Vec<(String, String)> {
        let file = |n: usize| {
            let next = (n + 1) % number;
            let text = format!("//! x\nuse crate::f{next}::S{next};\npub struct S{n};\n");
            (format!("{root}/src/f{n}.rs"), text)
        };
        (0..number).map(file).collect()
    }

    fn found(files: &[(String, String)]) -> Vec<Finding> {
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(p, t)| (p.as_str(), t.as_str()))
            .collect();
        check(&Tree::fixture(&files))
    }

    #[test]
    fn a_ring_may_have_its_number_of_files() {
        assert!(found(&ring_of(MOST_FILES)).is_empty());
        assert_eq!(found(&ring_of(MOST_FILES + 1)).len(), 1);
    }

    #[test]
    fn the_store_has_smaller_rings_than_the_command_tables_of_scsi() {
        for (root, most) in [("crates/store", 6), ("crates/scsi", 10)] {
            assert!(found(&ring_in(root, most)).is_empty(), "{root}");
            assert_eq!(found(&ring_in(root, most + 1)).len(), 1, "{root}");
        }
    }

    #[test]
    fn a_chain_is_no_ring() {
        let mut files = ring_of(MOST_FILES + 1);
        files.pop();
        assert!(found(&files).is_empty());
    }

    #[test]
    fn a_file_that_passes_a_name_on_is_in_no_ring_by_that() {
        let mut files = ring_of(MOST_FILES);
        files.push((
            "crates/x/src/lib.rs".into(),
            "//! x\nmod f0;\npub use f0::S0;\npub struct Root;\n".into(),
        ));
        files[1].1.push_str("use crate::Root;\n");
        assert!(found(&files).is_empty());
    }

    #[test]
    fn an_import_in_a_test_is_no_part_of_a_ring() {
        let mut files = ring_of(MOST_FILES + 1);
        let last = files.len() - 1;
        files[last].1 =
            "//! x\n#[cfg(test)]\nmod tests { use crate::f0::S0; }\npub struct S10;\n".into();
        assert!(found(&files).is_empty());
    }
}
