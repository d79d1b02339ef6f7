//! Damaged input files for the tests of both importers.

use super::Imported;
use super::oracle::Dice;
use crate::change::Change;
use crate::identity::Seed;
use model::Error;
use model::config::Config;

/// Number of random files of each kind in a run.
pub(super) const FILES: u64 = 1500;

/// Returns the text with some of its bytes, words or lines changed.
pub(super) fn mutated(text: &str, dice: &mut Dice) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..1 + dice.below(3) {
        let at = dice.below(lines.len());
        match dice.below(8) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let other = dice.below(lines.len());
                lines.swap(at, other);
            }
            3 => lines.truncate(at + 1),
            4 => {
                let words: Vec<&str> = lines[at].split(' ').collect();
                let word = words[dice.below(words.len())];
                let new = dice.of(&["banana", "-1", "0x1", "99999999999999999999", "", "*"]);
                lines[at] = lines[at].replacen(word, new, 1);
            }
            5 => {
                let word = lines[dice.below(lines.len())].trim().to_owned();
                lines[at].push_str(&word);
            }
            _ => {
                let mut bytes = lines[at].clone().into_bytes();
                let byte = dice.of(b"{}[]\"'#\\,:! \t\0z0\xff");
                let place = dice.below(bytes.len() + 1);
                match dice.below(2) {
                    0 if place < bytes.len() => bytes[place] = byte,
                    _ => bytes.insert(place, byte),
                }
                lines[at] = String::from_utf8_lossy(&bytes).into_owned();
            }
        }
        if lines.is_empty() {
            lines.push(String::new());
        }
    }
    lines.join("\n")
}

/// Checks a property of any file: either a refusal names a line of the file, or everything that was
/// accepted can be applied.
pub(super) fn check(text: &str, read: &Result<Imported, Error>) {
    match read {
        Err(error) => {
            let line = refused_line(error);
            let told = line.is_some_and(|line| (1..=text.lines().count() + 1).contains(&line));
            assert!(told || about_discovery(error), "{error}\n{text}");
        }
        Ok(imported) => {
            let config = Box::new(imported.config.clone());
            Change::Replace(config)
                .applied(&Config::default(), Seed::fixed(1), false)
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
    }
}

/// Recognizes the one refusal that concerns several lines.
fn about_discovery(error: &Error) -> bool {
    error.message.contains("discovery requires a CHAP login")
}

/// Returns the line that an error names.
pub(super) fn refused_line(error: &Error) -> Option<usize> {
    let (_, behind) = error.message.split_once("line ")?;
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Reports whether any of the words is in the configuration, the notes or the summary.
pub(super) fn tells_of(imported: &Imported, words: &[&str]) -> bool {
    let toml = toml::to_string(&imported.config).unwrap();
    let told = format!(
        "{toml}\n{}\n{}",
        imported.notes.join("\n"),
        imported.summary()
    );
    let told = told.to_lowercase();
    words.iter().any(|word| told.contains(&word.to_lowercase()))
}
