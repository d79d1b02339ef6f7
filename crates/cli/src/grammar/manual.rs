//! Manual pages, made from the verb tree: what a verb does and takes, its examples, and notes that
//! hold for all verbs.

use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use clap::{Args as ClapArgs, Command};
use clap_mangen::Man;

use crate::grammar::help;
use crate::{Done, Terminal};
use hint::Place;
use model::Error;

const SECTION: &str = "1";

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Verb, as in `man pool create`; without one, the program
    verb: Vec<String>,
    /// Write the pages of all verbs to this folder, for man to find them
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    folder: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, t: &mut Terminal<'_>) -> Done {
    let mut root = crate::command();
    root.build();
    if let Some(folder) = &args.folder {
        return Ok(write_all(&root, folder)?);
    }
    let trail = trail(&root, &args.verb)?;
    let page = page(&trail);
    // Scripts and pipes get the page itself, as a file for man.
    let is_read = t.ask.is_some() && io::stdout().is_terminal();
    if is_read && show(&page).is_ok() {
        return Ok(());
    }
    match is_read {
        true => {
            let mut verb = trail[trail.len() - 1].clone();
            write!(t.out, "{}", verb.render_long_help())?;
        }
        false => t.out.write_all(&page)?,
    }
    Ok(())
}

/// Returns the verb that the words name, behind the verbs above it.
fn trail<'a>(root: &'a Command, words: &[String]) -> Result<Vec<&'a Command>, Error> {
    let mut trail = vec![root];
    for word in words {
        let verb = trail[trail.len() - 1].find_subcommand(word);
        let verb = verb.ok_or_else(|| {
            let so_far = name(&trail, " ");
            Error::not_found(
                format!("there is no verb {so_far} {word}"),
                format!("see `{so_far} --help`; `sandstone man --folder DIR` writes the pages of all verbs to a folder"),
            )
        })?;
        trail.push(verb);
    }
    Ok(trail)
}

/// Returns the name of a verb, with the names of the verbs above it.
fn name(trail: &[&Command], between: &str) -> String {
    let words: Vec<&str> = trail.iter().map(|verb| verb.get_name()).collect();
    words.join(between)
}

/// Shows a page with man.
fn show(page: &[u8]) -> io::Result<()> {
    let mut man = Process::new("man")
        .args(["-l", "-"])
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = man.stdin.take() {
        // A reader that leaves early has seen enough.
        let _ = input.write_all(page);
    }
    match man.wait()?.success() {
        true => Ok(()),
        false => Err(io::Error::other("man failed")),
    }
}

fn write_all(root: &Command, folder: &Path) -> Result<(), Error> {
    let failed = |e| {
        let doing = format!("write the manual pages to {}", folder.display());
        Error::system(Place::File(folder), doing, e)
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    write_below(&mut vec![root], folder).map_err(failed)
}

fn write_below<'a>(trail: &mut Vec<&'a Command>, folder: &Path) -> io::Result<()> {
    let file = format!("{}.{SECTION}", name(trail, "-"));
    std::fs::write(folder.join(file), page(trail))?;
    let verb: &'a Command = trail[trail.len() - 1];
    for below in verbs(verb) {
        trail.push(below);
        write_below(trail, folder)?;
        trail.pop();
    }
    Ok(())
}

fn verbs(verb: &Command) -> impl Iterator<Item = &Command> {
    let all = verb.get_subcommands();
    all.filter(|verb| verb.get_name() != "help" && !verb.is_hide_set())
}

/// Returns the page of the last verb of a trail, in man's format.
fn page(trail: &[&Command]) -> Vec<u8> {
    let mut page = Vec::new();
    // Writing to memory cannot fail.
    let _ = write_page(trail, &mut page);
    page
}

fn write_page(trail: &[&Command], page: &mut Vec<u8>) -> io::Result<()> {
    let verb = trail[trail.len() - 1];
    let man = Man::new(verb.clone())
        .title(name(trail, "-"))
        .section(SECTION)
        .source(format!("Sandstone {}", env!("CARGO_PKG_VERSION")))
        .manual("Sandstone");
    man.render_title(page)?;
    man.render_name_section(page)?;
    section(page, "SYNOPSIS");
    let usage = verb.clone().render_usage().to_string();
    literal(page, usage.trim_start_matches("Usage: ").lines());
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if verbs(verb).next().is_some() {
        man.render_subcommands_section(page)?;
    }
    examples(page, trail);
    section(page, "FILES");
    for (path, what) in FILES {
        entry(page, path, what);
    }
    section(page, "ENVIRONMENT");
    for argument in verb.get_arguments() {
        if let Some(variable) = argument.get_env() {
            let what = argument
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            entry(page, &variable.to_string_lossy(), &what);
        }
    }
    section(page, "EXIT STATUS");
    for (status, what) in STATUS {
        entry(page, status, what);
    }
    if let Some((_, what)) = ANSWERS.iter().find(|(of, _)| *of == name(&trail[1..], " ")) {
        paragraph(page, what);
    }
    see_also(page, trail);
    Ok(())
}

const FILES: [(&str, &str); 5] = [
    (
        "/var/lib/sandstone",
        "the state folder, unless --state names another",
    ),
    (
        "/var/lib/sandstone/config.toml",
        "units, targets, hosts and maps",
    ),
    (
        "/var/lib/sandstone/pools.json",
        "the pools that are opened at the start, and where their devices are",
    ),
    (
        "/var/lib/sandstone/history",
        "earlier generations of these files",
    ),
    (
        "/run/sandstone/control.sock",
        "the daemon's control socket as a service; otherwise control.sock in the state folder",
    ),
];

const STATUS: [(&str, &str); 3] = [
    ("0", "The command succeeded."),
    (
        "1",
        "The command was refused or failed: standard error says what was wrong, what was not changed and \
         what to try next.",
    ),
    ("2", "The command line was wrong; the daemon was not asked."),
];

/// Verbs whose exit status also answers a question.
const ANSWERS: [(&str, &str); 5] = [
    (
        "config diff",
        "It also ends with 1 if the file differs from the configuration in force.",
    ),
    (
        "map explain",
        "It also ends with 1 if the initiator does not see the logical unit.",
    ),
    ("pool check", "It also ends with 1 if it finds damage."),
    (
        "pool status",
        "With -x it also ends with 3 if a pool needs attention, and with 4 if a pool is not open, not \
         redundant, or has lost data.",
    ),
    (
        "status",
        "It also ends with 3 if something needs attention, and with 4 if something is not served, not \
         redundant, or lost.",
    ),
];

fn examples(page: &mut Vec<u8>, trail: &[&Command]) {
    let own = help::examples::of(&name(&trail[1..], " "));
    section(page, "EXAMPLES");
    if !own.is_empty() {
        let lines: Vec<String> = own.iter().flat_map(|line| help::typed(line)).collect();
        return literal(page, lines.iter().map(String::as_str));
    }
    // For a verb with verbs below it, the first example of each of these.
    let lines: Vec<String> = verbs(trail[trail.len() - 1])
        .filter_map(|below| {
            let mut trail = trail.to_vec();
            trail.push(below);
            let first = help::examples::of(&name(&trail[1..], " ")).first();
            first.map(|line| help::typed(line))
        })
        .flatten()
        .collect();
    literal(page, lines.iter().map(String::as_str));
}

fn see_also(page: &mut Vec<u8>, trail: &[&Command]) {
    let above = (1..trail.len()).map(|end| name(&trail[..end], "-"));
    let below = verbs(trail[trail.len() - 1]).map(|below| {
        let mut trail = trail.to_vec();
        trail.push(below);
        name(&trail, "-")
    });
    let pages: Vec<String> = above
        .chain(below)
        .map(|page| format!("{page}({SECTION})"))
        .collect();
    section(page, "SEE ALSO");
    paragraph(page, &pages.join(", "));
}

fn section(page: &mut Vec<u8>, heading: &str) {
    push(page, &format!(".SH \"{heading}\"\n"));
}

/// Writes lines that roff must not fill.
fn literal<'a>(page: &mut Vec<u8>, lines: impl Iterator<Item = &'a str>) {
    push(page, ".nf\n");
    for line in lines {
        push(page, &escaped(line));
    }
    push(page, ".fi\n");
}

fn entry(page: &mut Vec<u8>, what: &str, text: &str) {
    push(page, ".TP\n");
    push(page, &format!("\\fB{}\\fR\n", escaped(what).trim_end()));
    push(page, &escaped(text));
}

fn paragraph(page: &mut Vec<u8>, text: &str) {
    push(page, ".PP\n");
    push(page, &escaped(text));
}

/// Returns a line that roff takes as text.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}\n"),
        false => format!("{line}\n"),
    }
}

fn push(page: &mut Vec<u8>, text: &str) {
    page.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Result<String, Error> {
        let mut root = crate::command();
        root.build();
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let page = page(&trail(&root, &words)?);
        Ok(String::from_utf8(page).expect("UTF-8"))
    }

    #[test]
    fn a_verb_has_its_page_and_a_nested_one_too() {
        for (words, title, usage) in [
            ("", ".TH sandstone 1", "sandstone [OPTIONS] <COMMAND>"),
            (
                "pool",
                ".TH sandstone\\-pool 1",
                "sandstone pool [OPTIONS] <COMMAND>",
            ),
            (
                "pool create",
                ".TH sandstone\\-pool\\-create 1",
                "sandstone pool create [OPTIONS] <NAME> <VDEV>...",
            ),
            (
                "zpool create",
                ".TH sandstone\\-pool\\-create 1",
                "sandstone pool create [OPTIONS] <NAME> <VDEV>...",
            ),
            (
                "initiator device set",
                ".TH sandstone\\-initiator\\-device\\-set 1",
                "sandstone initiator device set [OPTIONS] \\-\\-device <NAME>",
            ),
        ] {
            let page = of(words).expect(words);
            let page = page.replace(".TH sandstone-", ".TH sandstone\\-");
            assert!(page.contains(usage), "{words}: {page}");
            let heading = title.replace("\\-", "-");
            assert!(
                page.replace("\\-", "-").contains(&heading),
                "{words}: {page}"
            );
        }
        let error = of("pool splendid").expect_err("no such verb");
        assert_eq!(error.message, "there is no verb sandstone pool splendid");
        assert!(error.next.contains("man --folder DIR"), "{}", error.next);
    }

    #[test]
    fn every_page_has_every_section() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut root = crate::command();
        root.build();
        write_all(&root, folder.path()).expect("pages");
        let mut count = 0;
        for entry in std::fs::read_dir(folder.path()).expect("a folder") {
            let path = entry.expect("an entry").path();
            let page = std::fs::read_to_string(&path).expect("a page");
            for heading in [
                "NAME",
                "SYNOPSIS",
                "OPTIONS",
                "EXAMPLES",
                "FILES",
                "ENVIRONMENT",
                "EXIT STATUS",
                "SEE ALSO",
            ] {
                let quoted = format!(".SH \"{heading}\"\n");
                let bare = format!(".SH {heading}\n");
                assert!(
                    page.contains(&quoted) || page.contains(&bare),
                    "{heading} of {path:?}: {page}"
                );
            }
            let after = page.split("EXAMPLES").nth(1).unwrap_or_default();
            assert!(after.contains("\nsandstone "), "an example in {path:?}");
            assert!(page.contains("SANDSTONE_STATE"), "{path:?}");
            count += 1;
        }
        assert!(count > 100, "{count} pages");
        assert!(folder.path().join("sandstone-pool-create.1").exists());
    }
}
