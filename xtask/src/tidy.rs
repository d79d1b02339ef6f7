//! `cargo xtask tidy`: rules of the project that a machine can check, each with a clear message.
//!
//! A rule is a function from the [`Tree`] (every tracked text file, parsed if it is Rust) to
//! findings. Rules read nothing else, so each is tested on a few lines of fixture. A line may be
//! excused by `tidy-allow: RULE: reason` on itself or on the line before.

mod backends;
mod corpus;
mod crate_graph;
mod dependencies;
mod documents;
mod endpoints;
mod fields;
mod file_rings;
mod licences;
mod modules;
mod names;
mod openers;
mod paths;
mod phrases;
mod rooms;
mod sizes;
mod sleeps;
mod tree;
mod unsafety;
mod width;
mod words;

use std::fmt;

pub(crate) use tree::Tree;

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// File, relative to the root of the repository.
    pub path: String,
    /// Number of the line, from 1, or 0 if the finding is about the whole file.
    pub line: usize,
    /// Name of the rule, as `tidy-allow` takes it.
    pub rule: &'static str,
    /// Fault, and the way to mend it.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}: {}",
            self.path,
            self.line.max(1),
            self.rule,
            self.message
        )
    }
}

/// Checks the whole repository, and prints the findings.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if let Some(unknown) = arguments.first() {
        return Err(format!("unknown option '{unknown}'; tidy takes no options"));
    }
    let root = crate::crate_root();
    let tree = Tree::read(&root)?;
    let mut findings = check(&tree);
    let ours = dependencies::metadata(&root, false)?;
    findings.extend(dependencies::manifests(&ours));
    findings.extend(crate_graph::manifests(&ours));
    findings.extend(licences::check(
        &tree,
        &dependencies::metadata(&root, true)?,
    )?);
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, nothing to do", tree.len());
            Ok(())
        }
        1 => Err("1 finding".into()),
        n => Err(format!("{n} findings")),
    }
}

/// Checks every rule that needs only the files.
fn check(tree: &Tree) -> Vec<Finding> {
    let rules: [fn(&Tree) -> Vec<Finding>; 20] = [
        tree::unreadable,
        dependencies::imports,
        crate_graph::check,
        rooms::sizes,
        rooms::rings,
        file_rings::check,
        fields::check,
        sizes::check,
        sleeps::check,
        unsafety::check,
        backends::check,
        names::check,
        openers::check,
        phrases::check,
        width::check,
        words::check,
        words::machine_paths,
        documents::check,
        endpoints::check,
        corpus::check,
    ];
    rules
        .iter()
        .flat_map(|rule| rule(tree))
        .filter(|f| !tree.is_excused(f))
        .collect()
}
