//! Texts that others chose, in a form that changes nothing around them.
//!
//! A line of a log stays one line, and a terminal obeys none of it. Messages of decoders lose the
//! values that they quote.

/// Returns a text with each character escaped that a terminal would obey. So are those that change
/// how the rest of a line is read.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_obeyed(letter) {
            true => out.extend(letter.escape_default()),
            false => out.push(letter),
        }
    }
    out
}

/// Reports whether a character is a control character of ASCII or of ISO 8859, a separator of
/// lines, or turns the direction of text.
pub fn is_obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the message of a decoder without the texts that it quotes as they were sent. One of them
/// may be a secret in the wrong place.
pub fn without_values(message: &str) -> String {
    const QUOTED: &str = "string \"";
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, behind)) = rest.split_once(QUOTED) {
        out.push_str(before);
        out.push_str("a string");
        let mut is_escaped = false;
        let end = behind.find(|letter| {
            let ends = letter == '"' && !is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            ends
        });
        rest = end.map_or("", |end| &behind[end + 1..]);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_writes_a_second_line_or_moves_the_cursor() {
        assert_eq!(
            plain("lu a\nINFO all is well\u{1b}[2J ä\u{9b}2J"),
            "lu a\\nINFO all is well\\u{1b}[2J ä\\u{9b}2J"
        );
        assert_eq!(
            plain("\u{202e}txt.exe\u{2028}"),
            "\\u{202e}txt.exe\\u{2028}"
        );
        assert_eq!(plain("名前 é e\u{301} 🙂"), "名前 é e\u{301} 🙂");
    }

    #[test]
    fn a_message_quotes_no_text_that_was_sent() {
        for (message, expected) in [
            (
                r#"invalid type: string "hunter2", expected struct ChapSecret at line 1 column 9"#,
                "invalid type: a string, expected struct ChapSecret at line 1 column 9",
            ),
            (
                r#"invalid value: string "a\"b\\", expected c"#,
                "invalid value: a string, expected c",
            ),
            ("missing field `secret`", "missing field `secret`"),
            (r#"string "cut"#, "a string"),
        ] {
            assert_eq!(without_values(message), expected);
        }
    }
}
