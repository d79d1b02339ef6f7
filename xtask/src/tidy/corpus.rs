//! Every fuzz target starts from a committed corpus and is declared to cargo.

use super::{Finding, Tree};

const TARGETS: &str = "fuzz/fuzz_targets/";
const CORPUS: &str = "fuzz/corpus/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |path: &str, message: String| {
        findings.push(Finding {
            path: path.to_owned(),
            line: 0,
            rule: "fuzz-corpus",
            message,
        });
    };
    let manifest = tree.text("fuzz/Cargo.toml").unwrap_or_default();
    for path in tree.paths() {
        if let Some(name) = path
            .strip_prefix(TARGETS)
            .and_then(|rest| rest.strip_suffix(".rs"))
        {
            if !tree.exists(&format!("{CORPUS}{name}")) {
                report(path, format!("commit a few seeds in {CORPUS}{name}/"));
            }
            if !manifest.contains(&format!("name = \"{name}\"")) {
                report(
                    path,
                    format!("declare it in fuzz/Cargo.toml: [[bin]] name = \"{name}\""),
                );
            }
        }
        if let Some((name, _)) = path
            .strip_prefix(CORPUS)
            .and_then(|rest| rest.split_once('/'))
            && !tree.exists(&format!("{TARGETS}{name}.rs"))
        {
            report(
                path,
                format!(
                    "no fuzz target {TARGETS}{name}.rs reads this seed: remove it or rename its folder"
                ),
            );
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_seeds_and_declarations_belong_together() {
        let manifest = ("fuzz/Cargo.toml", "[[bin]]\nname = \"pdu\"\n");
        let whole = [
            manifest,
            ("fuzz/fuzz_targets/pdu.rs", "//! x\n"),
            ("fuzz/corpus/pdu/a", ""),
        ];
        assert_eq!(check(&Tree::fixture(&whole)), []);
        assert_eq!(check(&Tree::fixture(&whole[..2])).len(), 1);
        assert_eq!(check(&Tree::fixture(&whole[1..])).len(), 1);
        assert_eq!(check(&Tree::fixture(&[manifest, whole[2]])).len(), 1);
    }
}
