//! Examples and groups: `--help` shows them beside the options of a verb.

use std::fmt::Write as _;

use clap::Command;

use crate::print::wrap::wrapped;

pub(crate) mod examples;
mod groups;

/// Columns of a list of verbs.
const WIDTH: usize = 80;
/// Heading of the verbs that no group names.
const OTHERS: &str = "More";

/// Adds examples and groups to a verb and to all verbs below it. `path` holds the words of the verb
/// behind `sandstone`.
pub(crate) fn complete(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|verb| {
        let words = match path {
            "" => verb.get_name().to_owned(),
            path => format!("{path} {}", verb.get_name()),
        };
        complete(verb, &words)
    });
    grouped(with_examples(command, path), path)
}

fn with_examples(command: Command, path: &str) -> Command {
    let lines = examples::of(path).iter().flat_map(|line| typed(line));
    let lines: Vec<String> = lines.map(|line| format!("  {line}")).collect();
    match lines.is_empty() {
        true => command,
        false => command.after_help(format!("Examples:\n{}", lines.join("\n"))),
    }
}

/// Returns an example as the user types it, in lines that fit. A help broken at other places would
/// break names.
pub(crate) fn typed(line: &str) -> Vec<String> {
    let mut lines = vec!["sandstone".to_owned()];
    for word in line.split(' ') {
        let last = lines.last_mut();
        match last.filter(|last| last.len() + 1 + word.len() <= WIDTH - 6) {
            Some(last) => last.push_str(&format!(" {word}")),
            None => {
                if let Some(last) = lines.last_mut() {
                    last.push_str(" \\");
                }
                lines.push(format!("    {word}"));
            }
        }
    }
    lines
}

/// Shows verbs by group, if the list would be long.
fn grouped(command: Command, path: &str) -> Command {
    let Some(groups) = groups::of(path) else {
        return command;
    };
    let verbs: Vec<(String, String)> = command
        .get_subcommands()
        .map(|verb| {
            let about = verb
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            let aliases: Vec<&str> = verb.get_visible_aliases().collect();
            let about = match aliases.is_empty() {
                true => about,
                false => format!("{about} [aliases: {}]", aliases.join(", ")),
            };
            (verb.get_name().to_owned(), about)
        })
        .collect();
    let width = verbs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let is_grouped = |name: &str| groups.iter().any(|(_, names)| names.contains(&name));
    let named = groups.iter().map(|(heading, names)| {
        let of_it = names
            .iter()
            .filter_map(|name| verbs.iter().find(|verb| verb.0 == *name));
        (*heading, of_it.collect::<Vec<_>>())
    });
    let others: Vec<_> = verbs.iter().filter(|(name, _)| !is_grouped(name)).collect();
    let mut text = String::new();
    for (heading, verbs) in named.chain([(OTHERS, others)]) {
        if verbs.is_empty() {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{heading}:");
        for (name, about) in verbs {
            let about = wrapped(about, WIDTH - width - 4, &" ".repeat(width + 4));
            let _ = writeln!(text, "  {name:width$}  {about}");
        }
        text.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests;
