//! Comments and documents wrap at 100 columns. Code is the formatter's.

use super::{Finding, Tree};

const COLUMNS: usize = 100;

/// Comments of Rust files, and paragraphs of documents. Tables, code, pictures and links stay as
/// they are.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        let is_rust = file.path.ends_with(".rs");
        if !is_rust && !file.path.ends_with(".md") {
            continue;
        }
        let mut fenced = false;
        for (index, line) in file.text.lines().enumerate() {
            let trimmed = line.trim_start();
            let text = trimmed.trim_start_matches(['/', '!']).trim_start();
            if is_rust && !trimmed.starts_with("//") {
                fenced = false;
                continue;
            }
            if text.starts_with("```") {
                fenced = !fenced;
            }
            let columns = line.chars().count();
            if columns > COLUMNS && !fenced && !stays_whole(line, text, is_rust) {
                findings.push(Finding {
                    path: file.path.clone(),
                    line: index + 1,
                    rule: "width",
                    message: format!("{columns} columns, {COLUMNS} allowed: wrap the line"),
                });
            }
        }
    }
    findings
}

/// Reports whether a line cannot be wrapped: a table, output that is shown as it is, a link, one
/// word.
fn stays_whole(line: &str, text: &str, is_rust: bool) -> bool {
    let is_output = !is_rust && line.starts_with("    ");
    text.starts_with('|') || is_output || text.contains("](") || !text.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_comments_and_paragraphs_are_found_and_code_and_tables_are_not() {
        let long = "word ".repeat(30);
        let rust = format!("//! x\n// {long}\nlet a = \"{long}\";\n//! | {long} |\n");
        let document = format!("{long}\n\n```text\n{long}\n```\n| {long} |\n");
        let tree = Tree::fixture(&[("a.rs", &rust), ("a.md", &document), ("a.txt", &long)]);
        let found: Vec<(String, usize)> = check(&tree)
            .into_iter()
            .map(|finding| (finding.path, finding.line))
            .collect();
        assert_eq!(found, [("a.rs".to_owned(), 2), ("a.md".to_owned(), 1)]);
    }
}
