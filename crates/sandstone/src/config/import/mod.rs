//! Configurations of other targets, read as our own: identities are kept, so that initiators find
//! the disks they knew.

pub mod lio;
pub mod scst;

use super::model::Config;

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The configuration; port ids and missing identities are made when it is applied.
    pub config: Config,
    /// What could not be taken over, one sentence each.
    pub notes: Vec<String>,
}

/// A name as our rules want it: other characters become `-`.
fn plain_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':') {
                c
            } else {
                '-'
            }
        })
        .collect();
    let plain = plain.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    if plain.is_empty() {
        "unnamed".into()
    } else {
        plain.chars().take(128).collect()
    }
}

/// A name that none of `taken` has, made of `base`.
fn free_name(base: &str, taken: impl Fn(&str) -> bool) -> String {
    let base = plain_name(base);
    let mut name = base.clone();
    let mut number = 2;
    while taken(&name) {
        name = format!("{base}-{number}");
        number += 1;
    }
    name
}
