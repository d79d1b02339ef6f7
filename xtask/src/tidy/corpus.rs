//! Rule of fuzz targets: each starts from a committed corpus, is declared to cargo, and has its
//! line in the threat model.

use super::{Finding, Tree};

const TARGETS: &str = "fuzz/fuzz_targets/";
const CORPUS: &str = "fuzz/corpus/";
/// Document whose table gives the property that each target must hold.
const THREATS: &str = "docs/threat-model.md";
const TABLE: &str = "## Fuzz targets";

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
    let described = described(tree.text(THREATS).unwrap_or_default());
    for name in &described {
        if !tree.exists(&format!("{TARGETS}{name}.rs")) {
            report(
                THREATS,
                format!("fuzz target `{name}` does not exist: correct the table"),
            );
        }
    }
    for path in tree.paths() {
        if let Some(name) = path
            .strip_prefix(TARGETS)
            .and_then(|rest| rest.strip_suffix(".rs"))
        {
            if !tree.exists(&format!("{CORPUS}{name}")) {
                report(path, format!("commit a few seeds in {CORPUS}{name}/"));
            }
            if !described.contains(&name) {
                report(
                    path,
                    format!(
                        "describe the input of this target, and what must hold, in the table of {THREATS}"
                    ),
                );
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

/// Returns the targets for which the threat model has a line.
fn described(threats: &str) -> Vec<&str> {
    let lines = threats.lines().skip_while(|line| *line != TABLE).skip(1);
    let section = lines.take_while(|line| !line.starts_with('#'));
    section
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_seeds_and_declarations_belong_together() {
        let manifest = ("fuzz/Cargo.toml", "[[bin]]\nname = \"pdu\"\n");
        let whole = [
            manifest,
            (THREATS, "## Fuzz targets\n| `pdu` | a | b |\n"),
            ("fuzz/fuzz_targets/pdu.rs", "//! x\n"),
            ("fuzz/corpus/pdu/a", ""),
        ];
        assert_eq!(check(&Tree::fixture(&whole)), []);
        assert_eq!(check(&Tree::fixture(&whole[..3])).len(), 1);
        assert_eq!(check(&Tree::fixture(&whole[1..])).len(), 1);
        assert_eq!(check(&Tree::fixture(&[manifest, whole[3]])).len(), 1);
    }

    #[test]
    fn the_threat_model_has_a_line_of_each_target_and_of_no_other() {
        let told = |threats| {
            let files = [
                ("fuzz/Cargo.toml", "[[bin]]\nname = \"pdu\"\n"),
                (THREATS, threats),
                ("fuzz/fuzz_targets/pdu.rs", "//! x\n"),
                ("fuzz/corpus/pdu/a", ""),
            ];
            check(&Tree::fixture(&files)).len()
        };
        assert_eq!(
            told("| `cdb` | elsewhere |\n## Fuzz targets\n| `pdu` | a | b |\n"),
            0
        );
        assert_eq!(told("## Fuzz targets\n| `cdb` | a | b |\n"), 2);
        assert_eq!(
            told("## Fuzz targets\nprose\n## Next\n| `pdu` | a | b |\n"),
            1
        );
    }
}
