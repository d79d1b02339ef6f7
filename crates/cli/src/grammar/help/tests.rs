//! Tests of the help: every verb has an example that parses, stands in one group, and is found
//! where users look for it.

use clap::Command;

use super::{examples, groups};

/// Returns every verb with its words behind `sandstone`, the program first.
fn verbs() -> Vec<(String, Command)> {
    fn collect(command: &Command, path: &str, all: &mut Vec<(String, Command)>) {
        all.push((path.to_owned(), command.clone()));
        for verb in command
            .get_subcommands()
            .filter(|verb| verb.get_name() != "help")
        {
            let path = format!("{path} {}", verb.get_name());
            collect(verb, path.trim_start(), all);
        }
    }
    let mut root = crate::command();
    root.build();
    let mut all = Vec::new();
    collect(&root, "", &mut all);
    all
}

/// Returns the words of an example, without those that the shell takes for itself.
fn words(line: &str) -> Vec<&str> {
    let end = line.find(['<', '>']).unwrap_or(line.len());
    line[..end].split_whitespace().collect()
}

#[test]
fn every_verb_has_examples_that_parse_and_help_shows_them() {
    for (path, mut verb) in verbs() {
        let examples = examples::of(&path);
        let is_leaf = verb.get_subcommands().next().is_none();
        assert_eq!(
            !examples.is_empty(),
            is_leaf,
            "examples of 'sandstone {path}'"
        );
        let help = verb.render_long_help().to_string();
        for line in examples {
            for part in super::typed(line) {
                assert!(
                    help.contains(&format!("\n  {part}")),
                    "{part} of {path}: {help}"
                );
                assert!(part.chars().count() <= 78, "{part}");
            }
            assert!(line.starts_with(&path), "'{line}' is no example of {path}");
            let words = std::iter::once("sandstone").chain(words(line));
            let parsed = crate::command().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}

#[test]
fn every_option_and_argument_is_described() {
    for (path, verb) in verbs() {
        for argument in verb.get_arguments() {
            let is_described = argument.get_help().is_some();
            assert!(is_described, "{} of 'sandstone {path}'", argument.get_id());
        }
    }
}

#[test]
fn other_spellings_of_the_same_are_taken() {
    for line in [
        "target alua-state 2 active/non-optimized",
        "target alua-state 2 active-non-optimized",
        "initiator device get naa.652534e0000000000000100000000001",
        "initiator device get -d naa.652534e0000000000000100000000001",
        "pool events",
        "volume list -o space",
    ] {
        let words = std::iter::once("sandstone").chain(words(line));
        let parsed = crate::command().try_get_matches_from(words);
        assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
    }
    let refused = crate::command().try_get_matches_from(["sandstone", "session", "kill", "all"]);
    let text = refused.expect_err("no number").to_string();
    assert!(text.contains("write the number of one session"), "{text}");
}

#[test]
fn no_example_is_of_a_verb_that_there_is_not() {
    let all = verbs();
    for (path, _) in examples::EXAMPLES {
        assert!(all.iter().any(|(verb, _)| verb == path), "{path}");
    }
}

#[test]
fn every_verb_of_a_long_list_stands_in_one_group() {
    for (path, verb) in verbs() {
        let names = verb
            .get_subcommands()
            .map(|verb| verb.get_name().to_owned());
        let mut names: Vec<String> = names.filter(|name| name != "help").collect();
        let Some(groups) = groups::of(&path) else {
            assert!(
                names.len() < 10,
                "'{path}' has {} verbs and no groups",
                names.len()
            );
            continue;
        };
        let grouped = groups.iter().flat_map(|(_, names)| *names);
        let mut grouped: Vec<String> = grouped.map(|name| (*name).to_owned()).collect();
        names.sort();
        grouped.sort();
        assert_eq!(grouped, names, "{path}");
        let help = verb.clone().render_help().to_string();
        for (heading, _) in groups {
            assert!(
                help.contains(&format!("\n{heading}:\n  ")),
                "{path}: {help}"
            );
        }
        let listed = help.lines().filter(|line| {
            names
                .iter()
                .any(|name| line.trim_start().starts_with(name.as_str()))
        });
        assert!(listed.count() >= names.len(), "{help}");
        assert!(help.contains("\nOptions:\n"), "{help}");
    }
}

#[test]
fn lists_of_verbs_fit_80_columns() {
    for (path, verb) in verbs() {
        if groups::of(&path).is_none() {
            continue;
        }
        let help = verb.clone().render_help().to_string();
        let list = help.split("\nOptions:").next().unwrap_or_default();
        // clap itself breaks the text before the usage.
        let list = list.lines().skip_while(|line| !line.starts_with("Usage:"));
        for line in list {
            assert!(line.chars().count() <= 80, "{path}: {line}");
        }
    }
}

#[test]
fn zpools_and_zfs_names_lead_to_pools_and_volumes() {
    for line in [
        "zpool status -x",
        "zpool list",
        "zfs list",
        "zfs snapshot tank/vm1@monday",
    ] {
        let words = std::iter::once("sandstone").chain(line.split(' '));
        let parsed = crate::command().try_get_matches_from(words);
        assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
    }
}
