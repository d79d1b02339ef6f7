//! Sizes in zfs's words: K, M, G, T, P and E are powers of 1024.

use super::error::{CatalogError, ErrorKind};

const UNITS: [char; 7] = ['B', 'K', 'M', 'G', 'T', 'P', 'E'];

/// Parses bytes from a text like `750G`, `1.5T`, `64KiB` or `4096`.
///
/// # Errors
/// [`ErrorKind::InvalidValue`] if the text is no size, too large, or not a whole number of bytes.
pub fn parse_size(text: &str) -> Result<u64, CatalogError> {
    parse(text).ok_or_else(|| {
        CatalogError::new(
            ErrorKind::InvalidValue,
            format!("'{text}' is not a size in whole bytes"),
            "write a number followed by K, M, G, T, P or E (powers of 1024), as in 750G or 1.5T",
        )
    })
}

fn parse(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.to_ascii_uppercase();
    let unit = unit
        .strip_suffix("IB")
        .or(unit.strip_suffix('B'))
        .unwrap_or(&unit);
    let shift = match unit {
        "" => 0,
        _ => {
            10 * UNITS
                .iter()
                .skip(1)
                .position(|letter| unit == letter.to_string())?
                + 10
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') || fraction.len() > 18 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?;
    let mut bytes = u128::from(whole) << shift;
    if !fraction.is_empty() {
        let numerator = u128::from(fraction.parse::<u64>().ok()?) << shift;
        let denominator = 10_u128.pow(fraction.len() as u32);
        if numerator % denominator != 0 {
            return None;
        }
        bytes += numerator / denominator;
    }
    u64::try_from(bytes).ok()
}

/// Prints bytes in at most five characters, as zfs does: `750G`, `1.50T`, `0B`.
pub fn print_size(bytes: u64) -> String {
    let power = (bytes.max(1).ilog2() / 10) as usize;
    let unit = UNITS[power];
    let scale = 1_u64 << (10 * power);
    if bytes.is_multiple_of(scale) {
        return format!("{}{unit}", bytes / scale);
    }
    let value = bytes as f64 / scale as f64;
    let decimals = (0..=2)
        .rev()
        .find(|decimals| format!("{value:.decimals$}").len() <= 4)
        .unwrap_or(0);
    format!("{value:.decimals$}{unit}")
}

/// Prints bytes in the shortest words that [`parse_size`] reads back exactly: `1536M`, `4097`.
pub fn print_size_exactly(bytes: u64) -> String {
    let power = match bytes {
        0 => 0,
        _ => (bytes.trailing_zeros() / 10) as usize,
    };
    match power {
        0 => bytes.to_string(),
        _ => format!("{}{}", bytes >> (10 * power), UNITS[power]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_printed_exactly_is_read_back(bytes in any::<u64>(), shift in 0..64) {
            for bytes in [bytes, bytes >> shift << shift, bytes >> shift] {
                prop_assert_eq!(parse_size(&print_size_exactly(bytes)), Ok(bytes));
                prop_assert!(print_size(bytes).len() <= 5, "{}", print_size(bytes));
            }
        }

        #[test]
        fn any_text_is_borne(text in ".{0,30}") {
            let _ = parse_size(&text);
        }
    }

    #[test]
    fn sizes_are_read_as_zfs_reads_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4096B", 4096),
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("64KiB", 64 << 10),
            ("64kb", 64 << 10),
            ("750G", 750 << 30),
            ("1.5T", 3 << 39),
            ("0.5E", 1 << 59),
            ("15.5E", 31 << 59),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "", "K", "1X", "1.1T", "1.", ".5G", "-1", "1 G", "16E", "1..5G", "1KK", "1BB",
        ] {
            let error = parse_size(text).expect_err(text);
            assert_eq!(error.kind, ErrorKind::InvalidValue, "{text}");
        }
    }

    #[test]
    fn sizes_are_printed_as_zfs_prints_them() {
        for (bytes, text) in [
            (0, "0B"),
            (512, "512B"),
            (1023, "1023B"),
            (1 << 10, "1K"),
            (1536, "1.50K"),
            (750 << 30, "750G"),
            ((10 << 30) + (1 << 29), "10.5G"),
            ((100 << 30) + (1 << 29), "100G"),
            ((1023 << 30) + 1, "1023G"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(print_size(bytes), text);
        }
    }
}
