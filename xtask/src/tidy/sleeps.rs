//! Rule of sleeps: the tests of the whole program wait for what must come, by `testing::wait`. A
//! sleep that hopes for it fails on a busy machine, and takes its time on all others.

use super::{Finding, Tree};

/// Folder of the tests.
const HOME: &str = "crates/sandstone/tests/";
/// Greatest number of sleeps in all of them: devices that are slow, moments that nothing shows.
const MOST: usize = 30;

/// Finds sleeps without a reason, and those beyond the number that is allowed.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, MOST)
}

fn check_against(tree: &Tree, most: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut count = 0;
    for file in tree.files() {
        if !file.path.starts_with(HOME) || !file.path.ends_with(".rs") {
            continue;
        }
        let mut is_told = false;
        for (index, line) in file.text.lines().enumerate() {
            let (code, comment) = line.split_once("//").unwrap_or((line, ""));
            let was_told = std::mem::replace(&mut is_told, !comment.is_empty());
            if !code.contains("sleep(") {
                continue;
            }
            count += 1;
            let message = if count > most {
                format!("more than {most} sleeps in tests: wait for what must come (testing::wait)")
            } else if !was_told && !is_told {
                "a sleep without its reason: wait for what must come (testing::wait), or say in a \
                 comment why nothing can be waited for"
                    .into()
            } else {
                continue;
            };
            findings.push(Finding {
                path: file.path.clone(),
                line: index + 1,
                rule: "sleep",
                message,
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const REASON: &str = "//! sleep(x)\n// It is slow.\nsleep(x);\nsleep(x); // So is this.\n";

    fn lines(most: usize, path: &str, text: &str) -> Vec<usize> {
        let findings = check_against(&Tree::fixture(&[(path, text)]), most);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_sleep_needs_a_reason_on_its_line_or_the_one_before() {
        let path = "crates/sandstone/tests/nbd/a.rs";
        assert_eq!(lines(9, path, REASON), [0; 0]);
        assert_eq!(
            lines(9, path, "// Early.\nlet a = 1;\nthread::sleep(x);\n"),
            [3]
        );
        assert_eq!(lines(9, path, "thread::sleep(x);\n// Late.\n"), [1]);
    }

    #[test]
    fn only_so_many_are_allowed_in_all_tests_of_the_program() {
        let path = "crates/sandstone/tests/nbd/a.rs";
        assert_eq!(lines(1, path, REASON), [4]);
        let other = "crates/sandstone/tests/nbd/b.rs";
        let tree = Tree::fixture(&[(path, REASON), (other, REASON)]);
        assert_eq!(check_against(&tree, 4), []);
        let findings = check_against(&tree, 3);
        assert_eq!((findings.len(), findings[0].path.as_str()), (1, other));
    }

    #[test]
    fn what_is_no_test_of_the_program_may_sleep() {
        assert_eq!(lines(0, "crates/block/tests/a.rs", REASON), [0; 0]);
        assert_eq!(lines(0, "crates/sandstone/src/a.rs", REASON), [0; 0]);
    }
}
