//! Wildcards over initiator names: the names that a pattern matches, and whether two patterns can
//! match the same name.

/// Reports whether `pattern` matches `name`, ignoring case. `*` stands for any run of characters,
/// and `?` for any one character.
pub fn matches(pattern: &str, name: &str) -> bool {
    swallows(pattern, name, |c, n| {
        c == b'?' || c.eq_ignore_ascii_case(&n)
    })
}

/// Reports whether `wide` surely matches every name that `narrow` matches.
///
/// The result errs on one side only: `true` is a proof, but `false` may also mean that no proof was
/// found.
pub fn covers(wide: &str, narrow: &str) -> bool {
    // The wildcards of the narrow pattern stand for themselves. Only a star covers a star, and only
    // a wildcard covers `?`.
    swallows(wide, narrow, |c, n| match (c, n) {
        (_, b'*') => false,
        (b'?', _) => true,
        _ => c.eq_ignore_ascii_case(&n),
    })
}

/// Reports whether `text` splits into parts that match the characters of `pattern`. `fits` compares
/// one character of each.
fn swallows(pattern: &str, text: &str, fits: impl Fn(u8, u8) -> bool) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Place to resume at when the literal text after the last `*` turns out not to match.
    let mut retry = None;
    while n < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(&c) if fits(c, text[n]) => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    p = star + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// Reports whether some name matches both patterns.
pub fn overlap(a: &str, b: &str) -> bool {
    // Most patterns are plain names, and there may be thousands of them.
    let is_plain = |pattern: &str| !pattern.contains(['*', '?']);
    if is_plain(b) {
        return matches(a, b);
    }
    if is_plain(a) {
        return matches(b, a);
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // `reach[j]`, for the current `i`, tells whether the suffixes a[i..] and b[j..] have a word in
    // common.
    let mut below = vec![false; b.len() + 1];
    for i in (0..=a.len()).rev() {
        let mut reach = vec![false; b.len() + 1];
        for j in (0..=b.len()).rev() {
            let star_a = a.get(i) == Some(&b'*');
            let star_b = b.get(j) == Some(&b'*');
            reach[j] = match (a.get(i), b.get(j)) {
                (None, None) => true,
                // A star stands for nothing, or swallows one more character of the other side.
                _ if star_a && (below[j] || (j < b.len() && reach[j + 1])) => true,
                _ if star_b && (reach[j + 1] || (i < a.len() && below[j])) => true,
                (Some(x), Some(y)) if !star_a && !star_b => {
                    below[j + 1] && (*x == b'?' || *y == b'?' || x.eq_ignore_ascii_case(y))
                }
                _ => false,
            };
        }
        below = reach;
    }
    below[0]
}

/// Returns a sort key for the narrowness of a pattern: exact names first, then by the number of
/// literal characters.
pub fn narrowness(pattern: &str) -> (bool, usize) {
    let wild = pattern.bytes().filter(|b| matches!(b, b'*' | b'?')).count();
    (wild == 0, pattern.len() - wild)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wildcards_match_as_a_shell_user_expects() {
        assert!(matches(
            "iqn.1998-01.com.vmware:*",
            "IQN.1998-01.com.vmware:host1"
        ));
        assert!(matches("*", ""));
        assert!(matches("a*b*c", "a-b-b-c"));
        assert!(!matches("a*b*c", "a-b-b-d"));
        assert!(matches("host?", "host1"));
        assert!(!matches("host?", "host"));
        assert!(!matches("host", "host1"));
    }

    #[test]
    fn overlap_sees_through_wildcards() {
        assert!(overlap("*", "iqn.x"));
        assert!(overlap("a*", "*b"));
        assert!(overlap("a*c", "ab*"));
        assert!(!overlap("a*", "b*"));
        assert!(!overlap("host?", "host"));
        assert!(overlap("", "*"));
    }

    #[test]
    fn a_wide_pattern_covers_narrow_ones() {
        assert!(covers("*", "a*b?c") && covers("a*", "a") && covers("a*c", "ab*c"));
        assert!(covers("a?", "ab") && covers("a?*", "a??*") && covers("A*", "ab"));
        assert!(!covers("a?", "a*") && !covers("a", "?") && !covers("ab*", "a*"));
        assert!(!covers("a*", "*") && !covers("a", "ab"));
    }

    /// Matches by the definition: a star is nothing or one more character.
    fn plain(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) if plain(rest, name) => true,
            (Some((b'*', _)), Some((_, tail))) => plain(pattern, tail),
            (Some((&c, rest)), Some((&n, tail))) => (c == b'?' || c == n) && plain(rest, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_its_definition(pattern in "[ab*?]{0,7}", name in "[ab]{0,8}") {
            prop_assert_eq!(matches(&pattern, &name), plain(pattern.as_bytes(), name.as_bytes()));
        }

        #[test]
        fn a_name_matched_by_both_proves_overlap(a in "[ab*?]{0,6}", b in "[ab*?]{0,6}") {
            let mut words = vec![String::new()];
            let mut from = 0;
            for _ in 0..8 {
                let end = words.len();
                for i in from..end {
                    words.push(format!("{}a", words[i]));
                    words.push(format!("{}b", words[i]));
                }
                from = end;
            }
            let both = words.iter().any(|w| matches(&a, w) && matches(&b, w));
            prop_assert_eq!(overlap(&a, &b), both);
            if covers(&a, &b) {
                let left_out = words.iter().find(|w| matches(&b, w) && !matches(&a, w));
                prop_assert_eq!(left_out, None);
            }
        }
    }
}
