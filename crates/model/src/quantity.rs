//! Sizes and times as people write them. K, M, G and T are powers of 1024, as in zfs. Times use
//! `ms`, `s`, `m` and `h`.

/// Parses a size such as `4096`, `512K`, `10G` or `1.5T`, optionally with `B` or `iB`, and returns
/// bytes.
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

/// Writes bytes as zfs does, with three significant digits and a letter: `10G`, `1.50T`, `512`.
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

/// Parses a time such as `450ms`, `60s`, `5m` or `2h`, and returns milliseconds. A number without a
/// unit counts in units of `bare` milliseconds. If `bare` is `None`, the number is refused.
pub fn parse_time(text: &str, bare: Option<u64>) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a time; write a number with ms, s, m or h, as in 30s");
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let factor = match unit.trim() {
        "" => bare.ok_or_else(wrong)?,
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(wrong)
}

/// Writes milliseconds in a form that [`parse_time`] reads: `450ms`, `140s`.
pub fn format_time(ms: u64) -> String {
    if ms.is_multiple_of(1000) {
        format!("{}s", ms / 1000)
    } else {
        format!("{ms}ms")
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
    fn times_are_read_with_their_units() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
        ] {
            assert_eq!(parse_time(text, None), Ok(ms), "{text}");
        }
        assert_eq!(parse_time("30", Some(1000)), Ok(30_000));
        for text in [
            "",
            "30",
            "s",
            "1d",
            "-1s",
            "1.5s",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(parse_time(text, None).is_err(), "{text}");
        }
        for ms in [0, 450, 1500, 140_000] {
            assert_eq!(parse_time(&format_time(ms), None), Ok(ms));
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
