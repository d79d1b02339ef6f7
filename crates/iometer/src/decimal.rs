//! Numbers as spreadsheets write them. The mark before the fraction is a point or a comma. The
//! other mark, a blank or an apostrophe may stand between groups of three digits.

/// Marks between groups of digits, beside the point or comma that does not stand before fractions.
const GROUPING: [char; 5] = [' ', '\u{a0}', '\u{202f}', '\'', '’'];

/// Mark before fractions, which all numbers of a row share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    mark: char,
}

/// Mark before fractions, as far as one number shows it.
enum Vote {
    Nothing,
    Mark(char),
    /// `1.234`: a fraction, or a number above a thousand.
    Either,
}

impl Decimal {
    /// Finds the mark of a row.
    ///
    /// # Errors
    /// Two numbers contradict each other, or none shows the mark.
    pub(crate) fn of<'a>(
        numbers: impl Iterator<Item = &'a str>,
        separator: char,
    ) -> Result<Self, String> {
        let mut found: Option<(char, &str)> = None;
        let mut unclear = None;
        for number in numbers {
            match (vote(number), found) {
                (Vote::Nothing, _) => {}
                (Vote::Either, _) => unclear = unclear.or(Some(number)),
                (Vote::Mark(mark), Some((other, first))) if mark != other => {
                    return Err(format!(
                        "{first:?} and {number:?} have different decimal marks"
                    ));
                }
                (Vote::Mark(mark), _) => found = found.or(Some((mark, number))),
            }
        }
        match (found, unclear) {
            (Some((mark, _)), _) => Ok(Self { mark }),
            // A comma would have separated two cells.
            (None, _) if separator == ',' => Ok(Self { mark: '.' }),
            (None, None) => Ok(Self { mark: '.' }),
            (None, Some(number)) => Err(format!(
                "{number:?} may have a fraction or groups of three digits, and no other number of the line \
                 shows which"
            )),
        }
    }

    /// Reads a number, if the text is one.
    pub(crate) fn parse(self, text: &str) -> Option<f64> {
        let text = text.trim();
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let (whole, fraction) = match mantissa.split_once(self.mark) {
            Some((whole, fraction)) => (whole, fraction),
            None => (mantissa, ""),
        };
        let other = if self.mark == '.' { ',' } else { '.' };
        let is_grouping = |c: char| c == other || GROUPING.contains(&c);
        let groups: Vec<&str> = whole.split(is_grouping).collect();
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let first_is_short = groups.len() == 1 || (1..=3).contains(&groups[0].len());
        let all_have_three = groups[1..].iter().all(|group| group.len() == 3);
        let is_number = groups.iter().all(|group| digits(group))
            && first_is_short
            && all_have_three
            && digits(fraction)
            && whole.len() + fraction.len() > 0;
        if !is_number {
            return None;
        }
        let plain = format!("0{}.{fraction}0{exponent}", groups.concat());
        plain.parse().ok().filter(|number: &f64| number.is_finite())
    }
}

/// Reads a whole number of which the mark is not known. A mark in it stands between groups of
/// digits, or before zeros.
pub(crate) fn whole(text: &str) -> Option<f64> {
    let readings = ['.', ','].map(|mark| Decimal { mark }.parse(text));
    let whole = readings.into_iter().flatten();
    whole
        .filter(|number| number.fract() == 0.0)
        .reduce(f64::max)
}

fn vote(number: &str) -> Vote {
    let mantissa = number.trim().split(['e', 'E']).next().unwrap_or_default();
    let marks: Vec<(usize, char)> = mantissa
        .char_indices()
        .filter(|(_, c)| matches!(c, '.' | ','))
        .collect();
    let other = |mark| if mark == '.' { ',' } else { '.' };
    let is_number = mantissa
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '.' | ',') || GROUPING.contains(&c));
    match marks.as_slice() {
        _ if !is_number => Vote::Nothing,
        [] => Vote::Nothing,
        [(at, mark)] => {
            let (whole, fraction) = (&mantissa[..*at], &mantissa[at + 1..]);
            let may_be_group =
                fraction.len() == 3 && (1..=3).contains(&whole.len()) && !whole.starts_with('0');
            if may_be_group {
                Vote::Either
            } else {
                Vote::Mark(*mark)
            }
        }
        [(_, first), .., (_, last)] if first == last => Vote::Mark(other(*last)),
        [.., (_, last)] => Vote::Mark(*last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(row: &[&str], separator: char) -> Result<Vec<Option<f64>>, String> {
        let decimal = Decimal::of(row.iter().copied(), separator)?;
        Ok(row.iter().map(|number| decimal.parse(number)).collect())
    }

    #[test]
    fn one_number_tells_the_mark_of_its_row() {
        for row in [
            ["1234.5", "1234.000000", "0.125", "12345678"],
            ["1,234.5", "1,234", "0.125", "12,345,678"],
            ["1234,5", "1234,000000", "0,125", "12345678"],
            ["1.234,5", "1.234", "0,125", "12.345.678"],
            ["1 234,5", "1\u{a0}234", "0,125", "12\u{202f}345\u{202f}678"],
            ["1'234.5", "1’234", ".125", "12'345'678"],
        ] {
            let expected = [1234.5, 1234.0, 0.125, 12_345_678.0].map(Some);
            assert_eq!(read(&row, ';').expect("a row"), expected, "{row:?}");
        }
        assert_eq!(read(&["1,5E+08"], ';').expect("a row"), [Some(1.5e8)]);
        assert_eq!(read(&["1.5E+08"], ',').expect("a row"), [Some(1.5e8)]);
        assert_eq!(read(&["1,234"], ',').expect("a row"), [Some(1234.0)]);
    }

    #[test]
    fn whole_numbers_need_no_other_number() {
        for text in ["8192", "8.192", "8,192", "8 192", "8192,00", "8.192,0"] {
            assert_eq!(whole(text), Some(8192.0), "{text}");
        }
        for text in ["8.5", "8,5", "8,19", "8192,5", "-1", ""] {
            assert_eq!(whole(text), None, "{text}");
        }
    }

    #[test]
    fn what_may_be_two_numbers_is_none() {
        assert!(read(&["1.234"], ';').is_err());
        assert!(read(&["1,234", "17"], '\t').is_err());
        assert!(read(&["1.25", "1,25"], ';').is_err());
        for wrong in [
            "12. Mai",
            "1.2.3",
            "1,23,4",
            "--",
            "-1",
            "12,3456.5",
            "NaN",
            "inf",
            "",
        ] {
            let decimal = Decimal { mark: '.' };
            assert_eq!(decimal.parse(wrong), None, "{wrong}");
        }
    }
}
