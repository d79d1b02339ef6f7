//! Rule of licences: every linked package has a permissive licence. This rule reads the allowed
//! licences from deny.toml, and judges each package's SPDX expression. So it also holds where
//! cargo-deny is not installed.

use serde::Deserialize;

use super::dependencies::Metadata;
use super::{Finding, Tree};

const POLICY: &str = "deny.toml";

#[derive(Deserialize)]
struct Policy {
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

/// Judges every package of the build graph.
pub(super) fn check(tree: &Tree, metadata: &Metadata) -> Result<Vec<Finding>, String> {
    let text = tree
        .text(POLICY)
        .ok_or_else(|| format!("{POLICY} is missing: it names the licences allowed"))?;
    let policy: Policy = toml::from_str(text).map_err(|e| format!("{POLICY}: {e}"))?;
    Ok(judge(&policy.licenses.allow, metadata))
}

fn judge(allowed: &[String], metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let mut report = |message| {
            findings.push(Finding {
                path: "Cargo.lock".into(),
                line: 0,
                rule: "licence",
                message,
            });
        };
        match &package.license {
            None => report(format!(
                "{} {} names no licence: replace it",
                package.name, package.version
            )),
            Some(licence) if !is_allowed(licence, allowed) => report(format!(
                "{} {} is under {licence}, which {POLICY} does not allow: replace it",
                package.name, package.version
            )),
            Some(_) => {}
        }
        if let Some(source) = package
            .source
            .as_deref()
            .filter(|s| !s.starts_with("registry+https://github.com/rust-lang/"))
        {
            report(format!(
                "{} comes from {source}: take released packages only",
                package.name
            ));
        }
    }
    findings
}

/// Evaluates an SPDX expression. `OR` needs one side, `AND` both, and `/` is an old way to write
/// `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let outcome = any_of(&words, &mut at, allowed);
    outcome && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut outcome = all_of(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        outcome |= all_of(words, at, allowed);
    }
    outcome
}

fn all_of(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut outcome = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        outcome &= one(words, at, allowed);
    }
    outcome
}

fn one(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let word = words.get(*at);
    *at += 1; // also past the end, so that a cut expression is never taken as whole
    let Some(word) = word else { return false };
    if *word == "(" {
        let outcome = any_of(words, at, allowed);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return outcome && closed;
    }
    let mut name = (*word).to_owned();
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or_default();
        name = format!("{name} WITH {exception}");
        *at += 2;
    }
    allowed.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::super::dependencies::Package;
    use super::*;

    fn allowed(expression: &str) -> bool {
        let names = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        is_allowed(expression, &names)
    }

    #[test]
    fn expressions_are_evaluated() {
        assert!(allowed("MIT"));
        assert!(allowed("MIT/Apache-2.0"));
        assert!(allowed("GPL-2.0 OR MIT"));
        assert!(allowed("(MIT OR GPL-2.0) AND Apache-2.0"));
        assert!(allowed("Apache-2.0 WITH LLVM-exception OR GPL-3.0"));
        assert!(!allowed("GPL-2.0 OR LGPL-2.1"));
        assert!(!allowed("MIT AND LGPL-2.1"));
        assert!(!allowed("MIT OR"));
        assert!(!allowed("(MIT"));
        assert!(!allowed(""));
    }

    #[test]
    fn packages_without_licence_or_from_elsewhere_are_found() {
        let package = |license: Option<&str>, source: Option<&str>| Package {
            name: "a".into(),
            version: "1.0.0".into(),
            license: license.map(str::to_owned),
            source: source.map(str::to_owned),
            dependencies: Vec::new(),
        };
        let registry = Some("registry+https://github.com/rust-lang/crates.io-index");
        let count = |p| judge(&["MIT".to_owned()], &Metadata { packages: vec![p] }).len();
        assert_eq!(count(package(Some("MIT"), registry)), 0);
        assert_eq!(count(package(Some("MIT"), None)), 0);
        assert_eq!(count(package(None, registry)), 1);
        assert_eq!(count(package(Some("GPL-3.0"), registry)), 1);
        assert_eq!(
            count(package(Some("MIT"), Some("git+https://example.com/a"))),
            1
        );
    }
}
