//! Sentences in lines of a terminal, broken between words.

/// Returns words in lines of at most `width` letters. Each line but the first begins with `indent`.
pub(crate) fn wrapped(words: &str, width: usize, indent: &str) -> String {
    let mut text = String::new();
    let mut used = 0;
    for word in words.split_whitespace() {
        let len = word.chars().count();
        if used > 0 && used + 1 + len > width {
            text.push('\n');
            text.push_str(indent);
            used = 0;
        } else if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += len;
    }
    text
}
