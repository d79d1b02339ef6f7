//! Test of all advice: every command that any part of the program tells people to type is one that
//! the grammar takes.
//!
//! Advice stands in texts of all crates: errors, status and alerts, pages of the console. A verb
//! that was renamed, or an argument that is missing, would be found by an engineer at night. So the
//! test reads the texts where they are written: in the sources.

use std::path::{Path, PathBuf};

use clap::Command;

/// Words that stand for names and numbers in the texts. One of them fits each place.
const NAMES: &[&str] = &[
    "tank",
    "7",
    "tank/a",
    "tank/a@b",
    "iqn.2026-01.org.example:a",
    "naa.652534e0000000000000100000000001",
    "127.0.0.1:3260",
    "10G",
];
/// Words for places whose values the grammar knows, by what stands there in the texts.
const VALUES: &[(&str, &str)] = &[
    ("ROLE", "viewer"),
    ("PERCENT", "80"),
    ("ADDRESS:PORT", "127.0.0.1:3260"),
    ("HOST:{}", "127.0.0.1:3260"),
    ("{administrator}", "active"),
    ("{yes}", "yes"),
    ("{word}", "lost-writes"),
    ("{verb}", "import"),
    ("{verb}{chosen}", "import"),
    ("{kind}", "pool"),
    ("{text}", "comment=a"),
    ("--{option}", "--queue-depth"),
    ("{value}", "7"),
];
/// Commands that lack something here, and the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "volume send SNAPSHOT --to HOST:{}",
        "the next line gives the key",
    ),
    ("bench {verb}", "the rest is put together from the form"),
    (
        "pool check --rebuild-labels -y{named}{pool}",
        "two parts are glued to one word",
    ),
];
/// Least number of commands in the sources. If the test finds fewer, it no longer reads them.
const AT_LEAST: usize = 300;

#[test]
fn every_command_that_a_text_advises_is_one_that_the_grammar_takes() {
    let mut grammar = grammar();
    let mut wrong = Vec::new();
    let mut found = 0;
    for path in sources() {
        let source = std::fs::read_to_string(&path).expect("a source");
        for text in literals(without_tests(&source)) {
            for advice in commands(&text, &grammar) {
                found += 1;
                let line = advice.words.join(" ");
                let is_known = ELSEWHERE.iter().any(|(known, _)| *known == line);
                if !is_known && !advice.is_taken(&mut grammar) {
                    wrong.push(format!("{}: {line}", path.display()));
                }
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(found >= AT_LEAST, "only {found} commands were found");
}

#[test]
fn advice_that_cannot_be_typed_is_found() {
    let mut grammar = grammar();
    let mut is_taken = |text: &str| {
        let all = commands(text, &grammar);
        assert_eq!(all.len(), 1, "{text}");
        all[0].is_taken(&mut grammar)
    };
    assert!(is_taken("see `sandstone pool status {name}`"));
    assert!(is_taken(
        "sandstone map explain {name} shows what it may see"
    ));
    assert!(is_taken("use 'sandstone pool clear {}' when it is removed"));
    for wrong in [
        "see `sandstone pool stat {name}`",
        "replace it with 'sandstone pool replace tank DEVICE NEW ANOTHER'.",
        "`sandstone lu list --colour`",
        "sandstone lu list --colour shows it",
        "sandstone pool clean {name}",
    ] {
        assert!(!is_taken(wrong), "{wrong}");
    }
    assert!(commands("where sandstone is at work", &grammar).is_empty());
}

/// Returns the grammar with all its verbs in place.
fn grammar() -> Command {
    let mut grammar = crate::command();
    grammar.build();
    grammar
}

/// A command in a text.
struct Advice {
    words: Vec<String>,
    /// Whether the text shows where the command ends.
    is_closed: bool,
}

impl Advice {
    fn is_taken(&self, grammar: &mut Command) -> bool {
        let ends = match self.is_closed {
            true => self.words.len()..=self.words.len(),
            false => 1..=self.words.len(),
        };
        ends.rev().any(|end| {
            // An option belongs to the command, whatever follows it.
            let is_cut_short = self
                .words
                .get(end)
                .is_some_and(|next| next.starts_with('-'));
            let words = &self.words[..end];
            let is_whole = end == self.words.len();
            !is_cut_short
                && (is_mention(grammar, words, is_whole) || parses_somehow(grammar, words))
        })
    }
}

/// Reports whether the words only name a verb, as in: "`sandstone pool reguid` ends that". Where
/// the sentence may go on, a noun alone is no verb.
fn is_mention(grammar: &Command, words: &[String], is_whole: bool) -> bool {
    let options = words.iter().position(|word| word.starts_with('-'));
    let (path, options) = words.split_at(options.unwrap_or(words.len()));
    let mut verb = grammar;
    for word in path {
        match verb.find_subcommand(word) {
            Some(found) => verb = found,
            None => return false,
        }
    }
    let is_verb = is_whole || verb.get_subcommands().next().is_none();
    let is_value = |word: &String| word.contains('=') && !word.starts_with('-');
    is_verb
        && options
            .iter()
            .all(|word| is_value(word) || has_option(verb, word))
}

/// Reports whether a verb has an option, here without its value.
fn has_option(verb: &Command, option: &str) -> bool {
    verb.get_arguments().any(|it| {
        let long = it.get_long().map(|long| format!("--{long}"));
        let short = it.get_short().map(|short| format!("-{short}"));
        [long, short].iter().flatten().any(|name| name == option)
    })
}

/// Reports whether the command parses with one name in all its places. A place that is glued to a
/// word is a part of its own: it may be absent, and else it names devices.
fn parses_somehow(grammar: &mut Command, words: &[String]) -> bool {
    let glued = |word: &str| {
        let at = word.find('{').filter(|at| *at > 0)?;
        (!word[..at].ends_with(['/', '@', '=', '-', ':'])).then_some(at)
    };
    let absent = |word: &String| match glued(word) {
        Some(at) => vec![word[..at].to_owned()],
        None => vec![word.clone()],
    };
    let apart = |word: &String| match glued(word) {
        Some(at) => vec![word[..at].to_owned(), "-d".to_owned(), "{}".to_owned()],
        None => vec![word.clone()],
    };
    let ways = [
        words.to_vec(),
        words.iter().flat_map(absent).collect(),
        words.iter().flat_map(apart).collect(),
    ];
    let mut fits = ways
        .iter()
        .flat_map(|words| NAMES.iter().map(move |name| (words, name)));
    fits.any(|(words, name)| parses(grammar, words, name))
}

fn parses(grammar: &mut Command, words: &[String], name: &str) -> bool {
    let words: Vec<String> = words.iter().map(|word| filled(word, name)).collect();
    // The noun alone is quicker than the whole grammar, and lacks its options for all nouns.
    let noun = words
        .first()
        .and_then(|noun| grammar.find_subcommand_mut(noun));
    let of_noun = noun.map(|noun| noun.try_get_matches_from_mut(&words));
    let outcome = match of_noun {
        Some(Err(error)) if error.kind() != clap::error::ErrorKind::UnknownArgument => Err(error),
        Some(Ok(matches)) => Ok(matches),
        _ => {
            let line = std::iter::once("sandstone").chain(words.iter().map(String::as_str));
            grammar.try_get_matches_from_mut(line)
        }
    };
    match outcome {
        Ok(_) => true,
        Err(error) => error.kind() == clap::error::ErrorKind::DisplayHelp,
    }
}

/// Puts a name into each brace of a word.
fn filled(word: &str, name: &str) -> String {
    if let Some((_, value)) = VALUES.iter().find(|(place, _)| *place == word) {
        return (*value).to_owned();
    }
    let mut out = String::new();
    let mut rest = word;
    while let Some((before, behind)) = rest.split_once('{') {
        let end = behind.find('}').map_or(behind.len(), |at| at + 1);
        out.push_str(before);
        out.push_str(name);
        rest = &behind[end..];
    }
    out + rest
}

/// Returns the commands in a text. Those between grave accents or quotes end there. Others end
/// where the sentence goes on.
fn commands(text: &str, grammar: &Command) -> Vec<Advice> {
    let mut all = Vec::new();
    for (at, _) in text.match_indices("sandstone ") {
        let before = text[..at].chars().next_back();
        let behind = &text[at + "sandstone ".len()..];
        let end = match before {
            Some(mark @ ('`' | '\'')) => behind.find(mark),
            Some(mark) if mark.is_alphanumeric() || "-_/.".contains(mark) => continue,
            _ => None,
        };
        let is_closed = end.is_some();
        let stops = [
            "; ", ", ", " (", ")", ": ", "\n", "`", " | ", "'", "…", " <",
        ];
        let open = || stops.iter().filter_map(|stop| behind.find(stop)).min();
        let line = &behind[..end.or_else(open).unwrap_or(behind.len())];
        let line = line.trim_end_matches(['.', ',', ';', ':', '"']);
        let words: Vec<String> = words(line);
        let Some(first) = words.first() else {
            continue;
        };
        let mut verbs = grammar.get_subcommands();
        let is_verb = verbs.any(|verb| {
            verb.get_name() == first || verb.get_all_aliases().any(|alias| alias == first)
        });
        if is_verb || (is_closed && !first.starts_with(['{', '-'])) {
            all.push(Advice { words, is_closed });
        }
    }
    all
}

/// Splits a command at its spaces, but not within a brace: a name of the source stands there.
fn words(line: &str) -> Vec<String> {
    line.split_whitespace()
        .map(|word| word.trim_matches('"').to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Returns all sources of the program, without files of tests.
fn sources() -> Vec<PathBuf> {
    fn collect(folder: &Path, all: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let is_test = name == "tests" || name == "tests.rs" || name == "advised.rs";
            match path.is_dir() {
                _ if is_test => {}
                true => collect(&path, all),
                false if path.extension().is_some_and(|it| it == "rs") => all.push(path),
                false => {}
            }
        }
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = Vec::new();
    for of in std::fs::read_dir(crates).expect("the crates").flatten() {
        let folder = of.path().join("src");
        if folder.is_dir() && of.file_name() != "testing" {
            collect(&folder, &mut all);
        }
    }
    all.sort();
    all
}

fn without_tests(source: &str) -> &str {
    let end = source.find("#[cfg(test)]\nmod tests {");
    &source[..end.unwrap_or(source.len())]
}

/// Returns the string literals of a source, as the program has them.
fn literals(source: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let before = &rest[..at];
        let here = &rest[at..];
        if here.starts_with("//") {
            rest = &here[here.find('\n').unwrap_or(here.len())..];
        } else if here.starts_with("'\"'") || here.starts_with("'\\\"'") {
            rest = &here[here[1..].find('\'').map_or(here.len(), |end| end + 2)..];
        } else if let Some(inner) = here.strip_prefix('"') {
            let hashes = before.len() - before.trim_end_matches('#').len();
            let is_raw = before[..before.len() - hashes].ends_with('r');
            let (text, length) = match is_raw {
                true => raw(inner, hashes),
                false => escaped(inner),
            };
            all.push(text);
            rest = &here[1 + length..];
        } else {
            rest = &here[1..];
        }
    }
    all
}

fn raw(text: &str, hashes: usize) -> (String, usize) {
    let close = format!("\"{}", "#".repeat(hashes));
    let end = text.find(&close).unwrap_or(text.len());
    (text[..end].to_owned(), (end + close.len()).min(text.len()))
}

fn escaped(text: &str) -> (String, usize) {
    let mut out = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (out, at + 1),
            '\\' => match letters.next() {
                // The line goes on at the next word.
                Some((at, '\n')) => {
                    let behind = &text[at + 1..];
                    let gap = behind.len() - behind.trim_start().len();
                    letters = text.char_indices();
                    let _ = letters
                        .by_ref()
                        .take_while(|(it, _)| *it < at + gap)
                        .count();
                }
                Some((_, 'n')) => out.push('\n'),
                Some((_, of)) => out.push(of),
                None => {}
            },
            letter => out.push(letter),
        }
    }
    (out, text.len())
}
