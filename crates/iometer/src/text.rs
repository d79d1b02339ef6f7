//! Characters of a file that some program of Windows saved.

/// Characters of Windows-1252 in the place of the control characters 80h to 9Fh.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// Returns the text of a file, in which each line ends with a line feed, even if a Macintosh ended
/// it. The file is in UTF-16 or UTF-8 if it says so or is valid as that, else in Windows-1252.
pub fn decode(bytes: &[u8]) -> String {
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        bytes => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().map(|byte| windows_1252(*byte)).collect(),
        },
    };
    if text.contains('\r') && !text.contains('\n') {
        return text.replace('\r', "\n");
    }
    text
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units)
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

fn windows_1252(byte: u8) -> char {
    match byte {
        0x80..=0x9f => WINDOWS_1252[usize::from(byte - 0x80)],
        byte => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_of_windows_gives_the_same_text() {
        let text = "Größe – 8 KiB\n";
        assert_eq!(decode(text.as_bytes()), text);
        assert_eq!(decode(format!("\u{feff}{text}").as_bytes()), text);
        assert_eq!(decode(b"Gr\xf6\xdfe \x96 8 KiB\n"), text);
        let little = text.encode_utf16().flat_map(u16::to_le_bytes);
        assert_eq!(
            decode(&[0xff, 0xfe].into_iter().chain(little).collect::<Vec<_>>()),
            text
        );
        let big = text.encode_utf16().flat_map(u16::to_be_bytes);
        assert_eq!(
            decode(&[0xfe, 0xff].into_iter().chain(big).collect::<Vec<_>>()),
            text
        );
        assert_eq!(decode(b"a\rb\r"), "a\nb\n");
        assert_eq!(decode(b"a\r\nb\r\n"), "a\r\nb\r\n");
    }
}
