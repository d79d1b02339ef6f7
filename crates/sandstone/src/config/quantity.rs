//! Sizes as people write them: K, M, G, T are powers of 1024, as in zfs.

/// Reads `4096`, `512K`, `10G`, `1.5T`, with or without a trailing `B` or `iB`; bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!("{text:?} is not a size; write bytes or a number with K, M, G, T or P, as in 10G")
    };
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let shift = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" if unit.contains('i') => return Err(wrong()),
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return Err(wrong()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let bytes = u128::from(whole) << shift;
    if fraction.is_empty() || fraction.len() > 9 {
        return Err(wrong());
    }
    let scale = 10u128.pow(fraction.len() as u32);
    let fraction: u128 = fraction.parse().map_err(|_| wrong())?;
    let part = fraction << shift;
    if shift == 0 && !part.is_multiple_of(scale) {
        return Err(wrong());
    }
    u64::try_from(bytes + part / scale)
        .map_err(|_| format!("{text:?} is more than 64 bits can hold"))
}

/// Writes bytes as zfs does: three significant digits and a letter, `10G`, `1.50T`, `512`.
pub fn format_size(bytes: u64) -> String {
    let mut shift = 0;
    while shift < 60 && bytes >> shift >= 1024 {
        shift += 10;
    }
    let letter = ["", "K", "M", "G", "T", "P", "E"][shift / 10];
    if shift == 0 || bytes.trailing_zeros() as usize >= shift {
        return format!("{}{letter}", bytes >> shift);
    }
    let value = bytes as f64 / (1u64 << shift) as f64;
    if value < 9.995 {
        format!("{value:.2}{letter}")
    } else if value < 99.95 {
        format!("{value:.1}{letter}")
    } else {
        format!("{value:.0}{letter}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4k", 4096),
            ("10G", 10 << 30),
            ("1.5T", 3 << 39),
            ("1GiB", 1 << 30),
            ("512MB", 512 << 20),
            ("100B", 100),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "G",
            "ten",
            "1.5",
            "1..5G",
            "-1",
            "10X",
            "1.G",
            "99999999P",
            "7iB",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_short() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1K"),
            (10 << 30, "10G"),
            (3 << 39, "1.50T"),
            (10_240 + 512, "10.5K"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }
}
