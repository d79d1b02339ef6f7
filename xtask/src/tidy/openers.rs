//! Doc comments that begin plainly: the first sentence stands alone, has a subject or a verb, and
//! is short enough to be read once.

use super::{Finding, Tree};

/// Words that need a neighbour: pronouns, relative clauses, and prepositions in place of a subject.
const OPENERS: &str = "what whatever who whoever whom whomever whose which whichever where wherever \
    when whenever why how however it its itself they their theirs them these those this that such so \
    he his him she her hers we us our you your other others another both some somebody someone \
    something more too also again still not never only of from as by for in on at to with without \
    until till since while after before behind between through over under up about because if once \
    and or but nor then thus there here per than like unless although though same";

/// The longest first sentence, in words.
const MOST_WORDS: usize = 25;

/// A doc comment: its first line, and its lines without the comment marks.
struct DocComment<'a> {
    line: usize,
    text: Vec<&'a str>,
}

/// Openers and first sentences of doc comments.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        for comment in doc_comments(&file.text) {
            let mut report = |rule, message| {
                findings.push(Finding {
                    path: file.path.clone(),
                    line: comment.line,
                    rule,
                    message,
                });
            };
            if let Some(word) = opener(&comment.text) {
                report(
                    "opener",
                    format!(
                        "a doc comment begins with \"{word}\": begin with the thing, or with a verb for the \
                         work of the function"
                    ),
                );
            }
            let words = first_sentence(&comment.text).split_whitespace().count();
            if words > MOST_WORDS {
                report(
                    "first-sentence",
                    format!(
                        "the first sentence has {words} words, {MOST_WORDS} allowed: say one thought"
                    ),
                );
            }
        }
    }
    findings
}

/// The runs of `///` or `//!` lines of a file.
fn doc_comments(text: &str) -> Vec<DocComment<'_>> {
    let mut found: Vec<DocComment<'_>> = Vec::new();
    let mut open = "";
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let mark = ["///", "//!"]
            .into_iter()
            .find(|mark| line.starts_with(mark) && !line[mark.len()..].starts_with('/'));
        if let Some(mark) = mark {
            if mark != open {
                found.push(DocComment {
                    line: index + 1,
                    text: Vec::new(),
                });
            }
            let rest = &line[mark.len()..];
            if let Some(comment) = found.last_mut() {
                comment.text.push(rest.strip_prefix(' ').unwrap_or(rest));
            }
        }
        open = mark.unwrap_or_default();
    }
    found
}

/// The forbidden word that a comment begins with.
fn opener<'a>(text: &[&'a str]) -> Option<&'a str> {
    let first = text.iter().find(|line| !line.trim().is_empty())?.trim();
    if first.starts_with(['`', '[', '#', '<', '|', '-', '*', '=']) {
        return None;
    }
    let word = first.trim_start_matches(|c: char| !c.is_ascii_alphabetic() && c != '`');
    let end = word
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(word.len());
    let word = &word[..end];
    // The standards' words are all capitals: AS, IN.
    let is_abbreviation = word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase());
    let is_one = || {
        let mut openers = OPENERS.split_whitespace();
        openers.any(|opener| word.eq_ignore_ascii_case(opener))
    };
    (!word.is_empty() && !is_abbreviation && is_one()).then_some(word)
}

/// The first paragraph up to the first mark that ends a thought.
fn first_sentence(text: &[&str]) -> String {
    let lines = text
        .iter()
        .skip_while(|line| line.trim().is_empty())
        .take_while(|line| !line.trim().is_empty());
    let paragraph: Vec<&str> = lines.copied().collect();
    let paragraph = paragraph.join(" ");
    let mut end = paragraph.len();
    for (at, mark) in paragraph.match_indices(['.', '!', '?', ':', ';']) {
        let behind = &paragraph[at + mark.len()..];
        if behind.is_empty() || behind.starts_with(char::is_whitespace) {
            end = at;
            break;
        }
    }
    paragraph[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<(&'static str, usize)> {
        check(&Tree::fixture(&[("a.rs", text)]))
            .into_iter()
            .map(|finding| (finding.rule, finding.line))
            .collect()
    }

    #[test]
    fn words_that_need_a_neighbour_are_found_at_the_beginning_only() {
        let text = "//! A file.\n\n/// Its pace.\nfn a() {}\n/// Pace of what it does.\nfn b() {}\n\
            // Which.\n/// How many.\nfn c() {}\n";
        assert_eq!(rules(text), [("opener", 3), ("opener", 8)]);
    }

    #[test]
    fn abbreviations_code_and_longer_words_are_no_openers() {
        let text = "//! AS numbers.\n\n/// `it` and so on.\nfn a() {}\n/// Itemised.\nfn b() {}\n";
        assert!(rules(text).is_empty());
    }

    #[test]
    fn a_first_sentence_may_have_twenty_five_words() {
        let words = |n: usize| vec!["word"; n].join(" ");
        let text = format!(
            "//! Read {}.\n\n/// Read {}.\nfn a() {{}}\n/// Read. {}\nfn b() {{}}\n",
            words(24),
            words(25),
            words(40)
        );
        assert_eq!(rules(&text), [("first-sentence", 3)]);
    }
}
