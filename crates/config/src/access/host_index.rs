//! Index of hosts by initiator, for those who ask about thousands of initiators at once.

use std::collections::{BTreeSet, HashMap};

use model::config::{Config, HostSpec};

use super::ranked;

/// Hosts of a configuration, by the literal beginnings of their patterns.
///
/// A pattern's beginning is the text before its first wildcard. A name that the pattern matches
/// begins with it, so one look for each length of a beginning finds all hosts that can match.
#[derive(Debug)]
pub struct HostIndex<'a> {
    /// Hosts by the beginnings of their patterns, in lower case.
    by_beginning: HashMap<String, Vec<&'a HostSpec>>,
    lengths: BTreeSet<usize>,
}

impl<'a> HostIndex<'a> {
    /// Makes the index of a configuration.
    pub fn new(config: &'a Config) -> Self {
        let mut by_beginning: HashMap<String, Vec<&HostSpec>> = HashMap::new();
        let mut lengths = BTreeSet::new();
        for host in &config.hosts {
            for pattern in &host.initiators {
                let end = pattern.find(['*', '?']).unwrap_or(pattern.len());
                let beginning = pattern[..end].to_ascii_lowercase();
                lengths.insert(beginning.len());
                by_beginning.entry(beginning).or_default().push(host);
            }
        }
        Self {
            by_beginning,
            lengths,
        }
    }

    /// Returns the hosts that `initiator` belongs to, narrowest matching pattern first, as
    /// [`super::hosts`] does.
    pub fn hosts(&self, initiator: &str) -> Vec<&'a HostSpec> {
        let name = initiator.to_ascii_lowercase();
        let beginnings = self.lengths.iter().filter_map(|&length| name.get(..length));
        let found = beginnings.filter_map(|beginning| self.by_beginning.get(beginning));
        let mut hosts = ranked(found.flatten().copied(), initiator);
        // A host stands here once for each of its patterns that may match.
        hosts.dedup_by(|a, b| std::ptr::eq(*a, *b));
        hosts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::hosts;
    use super::*;

    proptest! {
        #[test]
        fn the_index_finds_what_a_search_of_all_hosts_finds(
            patterns in prop::collection::vec(
                (prop::collection::vec("[aB*?é]{0,4}", 1..4), prop::collection::vec("[ab*]{1,3}", 0..2)),
                0..8,
            ),
            initiator in "[Abé]{0,5}",
        ) {
            let mut config = Config::default();
            for (number, (initiators, except)) in patterns.into_iter().enumerate() {
                config.hosts.push(HostSpec {
                    name: format!("host{number}"),
                    initiators,
                    except,
                    chap: None,
                });
            }
            let names = |hosts: Vec<&HostSpec>| -> Vec<String> {
                hosts.into_iter().map(|host| host.name.clone()).collect()
            };
            let index = HostIndex::new(&config);
            prop_assert_eq!(names(index.hosts(&initiator)), names(hosts(&config, &initiator)));
        }
    }
}
