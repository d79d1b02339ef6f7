//! Text keys: `key=value` pairs as login and text PDUs carry them, and the forms of values (RFC
//! 7143 §6.1). All text from the network is bounded here.

use std::fmt;

/// Length of the longest key name in bytes.
pub const MAX_KEY_LENGTH: usize = 63;
/// Length of the longest value of most keys in bytes.
pub const MAX_VALUE_LENGTH: usize = 255;
/// Length of the longest value of the long keys (CHAP_C, CHAP_R, AuthMethod data) in bytes.
pub const MAX_LONG_VALUE_LENGTH: usize = 8192;

/// Answer for a key that the responder does not know.
pub const NOT_UNDERSTOOD: &str = "NotUnderstood";
/// Answer for a key that does not matter in this negotiation.
pub const IRRELEVANT: &str = "Irrelevant";
/// Answer for a value that is not acceptable.
pub const REJECT: &str = "Reject";

/// Reasons why text cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextError {
    /// The last pair does not end with NUL.
    MissingNul,
    /// A pair has no `=`.
    MissingEquals,
    /// A key name is empty, too long or has characters that the RFC does not allow.
    BadKey,
    /// A value is longer than its key allows, or not UTF-8, or has control characters.
    BadValue,
    /// The text is longer than the negotiation may take.
    TooLong,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingNul => "text does not end with NUL",
            Self::MissingEquals => "text pair without '='",
            Self::BadKey => "malformed text key",
            Self::BadValue => "malformed text value",
            Self::TooLong => "too much text in one negotiation",
        })
    }
}

impl std::error::Error for TextError {}

/// Iterator over the pairs of a complete text. Empty pairs (NUL after NUL) are skipped, because
/// initiators pad with them.
#[derive(Clone, Debug)]
pub struct TextPairs<'a> {
    rest: &'a [u8],
}

impl<'a> TextPairs<'a> {
    /// Reads a whole text, joined from all its PDUs.
    pub const fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }
}

impl<'a> Iterator for TextPairs<'a> {
    type Item = Result<(&'a str, &'a str), TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.rest.iter().position(|byte| *byte != 0)?;
        let text = &self.rest[start..];
        let Some(end) = text.iter().position(|byte| *byte == 0) else {
            self.rest = &[];
            return Some(Err(TextError::MissingNul));
        };
        self.rest = &text[end + 1..];
        let pair = parse_pair(&text[..end]);
        if pair.is_err() {
            self.rest = &[];
        }
        Some(pair)
    }
}

fn parse_pair(pair: &[u8]) -> Result<(&str, &str), TextError> {
    let equals = pair
        .iter()
        .position(|byte| *byte == b'=')
        .ok_or(TextError::MissingEquals)?;
    let (key, value) = (&pair[..equals], &pair[equals + 1..]);
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b".-+@_#".contains(byte);
    if key.is_empty() || key.len() > MAX_KEY_LENGTH || !key.iter().all(allowed) {
        return Err(TextError::BadKey);
    }
    let key = std::str::from_utf8(key).map_err(|_| TextError::BadKey)?;
    let value = std::str::from_utf8(value).map_err(|_| TextError::BadValue)?;
    if value.len() > longest_value(key) || value.chars().any(char::is_control) {
        return Err(TextError::BadValue);
    }
    Ok((key, value))
}

fn longest_value(key: &str) -> usize {
    match key {
        "CHAP_C" | "CHAP_R" => MAX_LONG_VALUE_LENGTH,
        _ => MAX_VALUE_LENGTH,
    }
}

/// Joiner of the text of PDUs with the C bit, up to a limit for the whole negotiation.
#[derive(Debug)]
pub struct TextInput {
    text: Vec<u8>,
    budget: usize,
}

impl TextInput {
    /// Starts a negotiation of at most `limit` bytes, all its texts together.
    pub const fn new(limit: usize) -> Self {
        Self {
            text: Vec::new(),
            budget: limit,
        }
    }

    /// Adds one PDU's data segment.
    ///
    /// # Errors
    /// [`TextError::TooLong`] once the negotiation has used up its limit.
    pub fn push(&mut self, data: &[u8]) -> Result<(), TextError> {
        self.budget = self
            .budget
            .checked_sub(data.len())
            .ok_or(TextError::TooLong)?;
        self.text.extend_from_slice(data);
        Ok(())
    }

    /// Reports whether a text was begun and not taken yet.
    pub fn is_pending(&self) -> bool {
        !self.text.is_empty()
    }

    /// Returns the whole text, once a PDU without the C bit has come.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }
}

/// Text to send, cut into data segments.
#[derive(Clone, Debug, Default)]
pub struct TextOutput {
    text: Vec<u8>,
    sent: usize,
}

impl TextOutput {
    /// Starts an empty text.
    pub const fn new() -> Self {
        Self {
            text: Vec::new(),
            sent: 0,
        }
    }

    /// Appends one pair.
    pub fn push(&mut self, key: &str, value: impl fmt::Display) {
        use std::io::Write;
        // Writing to a vector cannot fail.
        let _ = write!(self.text, "{key}={value}");
        self.text.push(0);
    }

    /// Returns the number of bytes not sent yet.
    pub fn remaining(&self) -> usize {
        self.text.len() - self.sent
    }

    /// Reports whether nothing is left to send.
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// Returns the next data segment of at most `max` bytes. If [`Self::is_empty`] is false
    /// afterwards, the PDU needs the C bit. A pair may be cut anywhere (RFC 7143 §6.1).
    pub fn next_segment(&mut self, max: usize) -> &[u8] {
        let start = self.sent;
        self.sent = start.saturating_add(max).min(self.text.len());
        &self.text[start..self.sent]
    }
}

/// Reads `Yes` or `No`.
pub fn parse_boolean(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

/// Returns the text of a boolean.
pub const fn boolean(value: bool) -> &'static str {
    if value { "Yes" } else { "No" }
}

/// Reads a numerical value: decimal, or hexadecimal after `0x`, of at most 64 bits.
pub fn parse_number(value: &str) -> Option<u64> {
    let (digits, radix) = match value
        .strip_prefix("0x")
        .or_else(|| value.strip_prefix("0X"))
    {
        Some(digits) => (digits, 16),
        None => (value, 10),
    };
    // from_str_radix would accept a sign.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// Reads a range `low~high` of numbers, both ends included.
pub fn parse_range(value: &str) -> Option<(u64, u64)> {
    let (low, high) = value.split_once('~')?;
    let (low, high) = (parse_number(low)?, parse_number(high)?);
    (low <= high).then_some((low, high))
}

/// Returns the values of a list, in order of preference.
pub fn parse_list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').filter(|item| !item.is_empty())
}

/// Reads a binary value: hexadecimal after `0x`, or base64 after `0b` (RFC 7143 §6.1, RFC 4648).
/// Returns `None` if it is malformed, empty, or longer than `max` bytes decoded.
pub fn parse_binary(value: &str, max: usize) -> Option<Vec<u8>> {
    let (prefix, digits) = value.split_at_checked(2)?;
    let bytes = match prefix {
        "0x" | "0X" if digits.len() <= max.checked_mul(2)? => decode_hex(digits.as_bytes())?,
        "0b" | "0B" if digits.len() <= max.div_ceil(3).checked_mul(4)? => {
            decode_base64(digits.as_bytes())?
        }
        _ => return None,
    };
    (!bytes.is_empty() && bytes.len() <= max).then_some(bytes)
}

/// Writes bytes as a hexadecimal binary value, which every initiator understands.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("0x");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

fn decode_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs
        .map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?))
        .collect()
}

fn decode_base64(digits: &[u8]) -> Option<Vec<u8>> {
    let sextet = |digit: u8| {
        Some(match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        })
    };
    if !digits.len().is_multiple_of(4) {
        return None;
    }
    let padding = digits
        .iter()
        .rev()
        .take(2)
        .take_while(|digit| **digit == b'=')
        .count();
    let digits = &digits[..digits.len() - padding];
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for quad in digits.chunks(4) {
        let mut word = 0u32;
        for digit in quad {
            word = word << 6 | u32::from(sextet(*digit)?);
        }
        word <<= 6 * (4 - quad.len());
        let [_, a, b, c] = word.to_be_bytes();
        bytes.extend_from_slice(&[a, b, c][..quad.len() - 1]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &[u8]) -> Result<Vec<(&str, &str)>, TextError> {
        TextPairs::new(text).collect()
    }

    #[test]
    fn pairs() {
        assert_eq!(parse(b"A=1\0B=\0"), Ok(vec![("A", "1"), ("B", "")]));
        assert_eq!(parse(b"\0\0A=1\0\0\0"), Ok(vec![("A", "1")]));
        assert_eq!(parse(b""), Ok(vec![]));
        assert_eq!(parse(b"A=x=y\0"), Ok(vec![("A", "x=y")]));
        assert_eq!(parse(b"A=1"), Err(TextError::MissingNul));
        assert_eq!(parse(b"A1\0"), Err(TextError::MissingEquals));
        assert_eq!(parse(b"=1\0"), Err(TextError::BadKey));
        assert_eq!(parse(b"A B=1\0"), Err(TextError::BadKey));
        assert_eq!(parse(b"A=\xff\0"), Err(TextError::BadValue));
        assert_eq!(parse(b"A=\n\0"), Err(TextError::BadValue));
    }

    #[test]
    fn lengths() {
        let key = |n: usize| [&vec![b'K'; n][..], b"=1\0"].concat();
        assert!(parse(&key(63)).is_ok());
        assert_eq!(parse(&key(64)), Err(TextError::BadKey));
        let value =
            |key: &str, n: usize| [key.as_bytes(), b"=", &vec![b'v'; n][..], b"\0"].concat();
        assert!(parse(&value("A", 255)).is_ok());
        assert_eq!(parse(&value("A", 256)), Err(TextError::BadValue));
        assert!(parse(&value("CHAP_C", 8192)).is_ok());
        assert_eq!(parse(&value("CHAP_C", 8193)), Err(TextError::BadValue));
    }

    #[test]
    fn numbers() {
        assert_eq!(parse_number("262144"), Some(262_144));
        assert_eq!(parse_number("0x40000"), Some(262_144));
        for bad in [
            "",
            "0x",
            "-1",
            "+1",
            "1 ",
            "0xg",
            "18446744073709551616",
            "1a",
        ] {
            assert_eq!(parse_number(bad), None, "{bad}");
        }
        assert_eq!(parse_range("1~0x10"), Some((1, 16)));
        assert_eq!(parse_range("2~1"), None);
    }

    #[test]
    fn binary_values() {
        assert_eq!(parse_binary("0x00fF", 2), Some(vec![0, 255]));
        assert_eq!(parse_binary("0x00ff", 1), None);
        assert_eq!(parse_binary("0x0", 4), None);
        assert_eq!(parse_binary("0x", 4), None);
        assert_eq!(parse_binary("0bTWFu", 3), Some(b"Man".to_vec()));
        assert_eq!(parse_binary("0bTWE=", 3), Some(b"Ma".to_vec()));
        assert_eq!(parse_binary("0bTQ==", 1), Some(b"M".to_vec()));
        assert_eq!(parse_binary("0bTWFu", 2), None);
        for bad in [
            "0bT===", "0b=TWF", "0bTW=u", "0bTWF", "0b====", "1234", "", "0", "é",
        ] {
            assert_eq!(parse_binary(bad, 64), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text: Vec<u8>, value in ".*") {
            let _ = TextPairs::new(&text).count();
            let _ = parse_binary(&value, 16);
            let _ = parse_number(&value);
            let _ = parse_range(&value);
        }

        #[test]
        fn hex_round_trip(bytes in proptest::collection::vec(any::<u8>(), 1..64)) {
            prop_assert_eq!(parse_binary(&hex(&bytes), 64), Some(bytes));
        }

        #[test]
        fn text_survives_being_cut_anywhere(values in proptest::collection::vec("[a-zA-Z0-9,.:-]{0,40}", 0..20), max in 1usize..50) {
            let mut output = TextOutput::default();
            for (i, value) in values.iter().enumerate() { output.push(&format!("Key{i}"), value); }
            let mut input = TextInput::new(4096);
            while !output.is_empty() {
                let segment = output.next_segment(max);
                prop_assert!(!segment.is_empty() && segment.len() <= max);
                input.push(segment).unwrap();
            }
            let text = input.take();
            let got: Vec<String> = TextPairs::new(&text).map(|pair| pair.unwrap().1.to_owned()).collect();
            prop_assert_eq!(got, values);
        }

        #[test]
        fn input_is_bounded_over_all_texts(sizes in proptest::collection::vec(0usize..100, 1..50)) {
            let mut input = TextInput::new(1000);
            let mut total = 0;
            for size in sizes {
                let accepted = input.push(&vec![0; size]).is_ok();
                prop_assert_eq!(accepted, total + size <= 1000);
                if !accepted { break; }
                total += size;
                let _ = input.take();
            }
        }
    }
}
