//! The crates and what each may name: one list, which the manifests must equal and from which
//! ARCHITECTURE.md has its drawing.

use std::collections::{BTreeMap, BTreeSet};

use super::dependencies::{Metadata, Package};
use super::{Finding, Tree};

/// Document that shows the drawing.
const DOCUMENT: &str = "ARCHITECTURE.md";
/// Line before the drawing in the document.
const MARK: &str = "<!-- crates: `cargo xtask tidy` draws this -->";

/// Crates that are no part of the graph: they only test others, or are tools.
const TOOLS: &[&str] = &["xtask", "conformance"];

/// Crates from the bottom up, with the crates of this repository that each may name in its product
/// code.
const LIST: &str = "
    pages
    scsi
    iscsi
    nbd
    iometer
    store: pages
    interfaces
    hint: interfaces
    shown
    state_folder
    net: iscsi
    process
    multipath: scsi
    block: pages scsi hint
    model: scsi iscsi hint multipath
    access: shown state_folder model
    history: model
    smart: state_folder model
    config: shown state_folder multipath model
    initiator: scsi iscsi net multipath block model
    pools: pages store hint state_folder process block model config initiator
    backends: block model initiator pools
    isns: iscsi interfaces model
    listener
    https: interfaces hint state_folder model listener
    unit: scsi state_folder block model
    nbd_server: pages scsi nbd hint block unit
    target: pages scsi iscsi hint net process block model config initiator pools backends isns unit
    alert: shown state_folder model
    bench: pages iometer net multipath block model
    benchmarks: state_folder block model bench
    control: interfaces hint shown process multipath block model access history smart config initiator pools listener alert bench benchmarks
    lab: block model config control bench
    cli: iscsi iometer store hint shown state_folder process multipath block model config initiator backends alert control bench lab
    console: hint model access alert config listener bench benchmarks control
    sandstone: hint state_folder process block model access history config initiator pools backends isns https unit nbd_server target alert benchmarks control cli console
    sim: pages iscsi store multipath block model initiator target
    testing
";

/// A crate and the crates that it may name.
type Entry<'a> = (&'a str, Vec<&'a str>);

/// Reads a list of crates.
fn crates(list: &str) -> Vec<Entry<'_>> {
    let lines = list.lines().map(str::trim).filter(|line| !line.is_empty());
    let entry = |line| match str::split_once(line, ':') {
        Some((name, may)) => (name, may.split_whitespace().collect()),
        None => (line, Vec::new()),
    };
    lines.map(entry).collect()
}

/// Manifests that name other crates than the list says.
pub(super) fn manifests(metadata: &Metadata) -> Vec<Finding> {
    let ours: BTreeSet<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    let listed: BTreeMap<&str, Vec<&str>> = crates(LIST).into_iter().collect();
    let mut findings = Vec::new();
    let mut report = |name: &str, message| {
        findings.push(Finding {
            path: format!("crates/{name}/Cargo.toml"),
            line: 0,
            rule: "crate-graph",
            message,
        });
    };
    for package in &metadata.packages {
        let name = package.name.as_str();
        if TOOLS.contains(&name) {
            continue;
        }
        let Some(may) = listed.get(name) else {
            report(
                name,
                format!(
                    "`{name}` is not in the list of crates (xtask/src/tidy/crate_graph.rs): add it with its \
                     dependencies"
                ),
            );
            continue;
        };
        let named = named(package, &ours);
        for other in named.difference(&may.iter().copied().collect()) {
            report(
                name,
                format!(
                    "`{name}` depends on `{other}`, which the list of crates does not allow: move the needed \
                     code down, or change the list and the drawing"
                ),
            );
        }
        for other in may.iter().filter(|other| !named.contains(**other)) {
            report(
                name,
                format!(
                    "the list of crates lets `{name}` depend on `{other}`, but it does not: remove `{other}` \
                     from the list"
                ),
            );
        }
    }
    findings
}

/// Crates of this repository that a package names in its product code.
fn named<'a>(package: &'a Package, ours: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    let product = package.dependencies.iter().filter(|d| d.kind.is_none());
    product
        .map(|dependency| dependency.name.as_str())
        .filter(|name| ours.contains(name))
        .collect()
}

/// A document whose drawing is not that of the list.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let finding = |line, message: String| Finding {
        path: DOCUMENT.into(),
        line,
        rule: "crate-graph",
        message,
    };
    let mut findings: Vec<Finding> = upward(&crates(LIST))
        .into_iter()
        .map(|message| Finding {
            path: "xtask/src/tidy/crate_graph.rs".into(),
            line: 0,
            rule: "crate-graph",
            message,
        })
        .collect();
    let Some(file) = tree.files().find(|file| file.path == DOCUMENT) else {
        return findings;
    };
    let Some(at) = file.text.lines().position(|line| line == MARK) else {
        findings.push(finding(
            0,
            format!("the drawing of the crates is missing: put the line `{MARK}` before it"),
        ));
        return findings;
    };
    let shown: Vec<&str> = file
        .text
        .lines()
        .skip(at + 1)
        .skip_while(|line| line.is_empty())
        .take_while(|line| !line.is_empty())
        .collect();
    let drawn = drawing(&crates(LIST));
    if shown != drawn.lines().collect::<Vec<_>>() {
        findings.push(finding(
            at + 1,
            format!("the drawing does not match the list of crates, which gives\n{drawn}"),
        ));
    }
    findings
}

/// Entries of the list that name a crate which stands above them, or nowhere.
fn upward(crates: &[Entry<'_>]) -> Vec<String> {
    let mut below = BTreeSet::new();
    let mut found = Vec::new();
    for (name, may) in crates {
        for other in may.iter().filter(|other| !below.contains(*other)) {
            found.push(format!(
                "`{name}` stands before `{other}` in the list, but depends on it"
            ));
        }
        below.insert(*name);
    }
    found
}

/// The crates in rows: each stands on crates of rows below it. Only those that are not implied are
/// named.
fn drawing(crates: &[Entry<'_>]) -> String {
    let all: BTreeMap<&str, &[&str]> = crates
        .iter()
        .map(|(name, may)| (*name, may.as_slice()))
        .collect();
    let mut rows: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut level: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, may) in crates {
        let row = may
            .iter()
            .filter_map(|other| level.get(other))
            .max()
            .map_or(0, |row| row + 1);
        level.insert(name, row);
        rows.entry(row).or_default().push(name);
    }
    let width = crates.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut drawn = String::from("```text\n");
    for (row, names) in rows.iter().rev() {
        for name in names {
            let may = all[name];
            let implied: BTreeSet<&str> =
                may.iter().flat_map(|other| beneath(other, &all)).collect();
            let direct: Vec<&str> = may
                .iter()
                .copied()
                .filter(|other| !implied.contains(other))
                .collect();
            let line = if direct.is_empty() {
                format!("{row:>2}  {name}")
            } else {
                format!("{row:>2}  {name:<width$} → {}", direct.join(", "))
            };
            drawn.push_str(line.trim_end());
            drawn.push('\n');
        }
    }
    drawn.push_str("```");
    drawn
}

/// Everything that a crate stands on.
fn beneath<'a>(name: &str, all: &BTreeMap<&str, &[&'a str]>) -> BTreeSet<&'a str> {
    let may = all.get(name).copied().unwrap_or_default();
    let deeper = may.iter().flat_map(|other| beneath(other, all));
    may.iter().copied().chain(deeper).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::dependencies::Dependency;

    const THREE: &str = "
 low
 middle: low
 high: low middle
";

    #[test]
    fn a_drawing_names_only_what_is_not_implied() {
        assert_eq!(
            drawing(&crates(THREE)),
            "```text\n 2  high   → middle\n 1  middle → low\n 0  low\n```"
        );
    }

    #[test]
    fn a_crate_that_depends_on_one_above_it_is_found() {
        assert!(upward(&crates(THREE)).is_empty());
        assert_eq!(upward(&crates("low: high\nhigh")).len(), 1);
    }

    #[test]
    fn the_list_of_this_repository_points_one_way() {
        assert_eq!(upward(&crates(LIST)), Vec::<String>::new());
    }

    #[test]
    fn manifests_name_exactly_what_the_list_lets_them() {
        let package = |name: &str, others: &[(&str, Option<&str>)]| Package {
            name: name.into(),
            version: "0.1.0".into(),
            license: None,
            source: None,
            dependencies: others
                .iter()
                .map(|(name, kind)| Dependency {
                    name: (*name).into(),
                    kind: kind.map(str::to_owned),
                })
                .collect(),
        };
        let count = |packages| manifests(&Metadata { packages }).len();
        assert_eq!(count(vec![package("pages", &[("serde", None)])]), 0);
        let unknown = package("novelty", &[]);
        assert_eq!(count(vec![package("pages", &[]), unknown]), 1);
        let upward = package("pages", &[("store", None), ("scsi", Some("dev"))]);
        let store = package("store", &[("pages", None)]);
        assert_eq!(count(vec![upward, store]), 1);
    }
}
