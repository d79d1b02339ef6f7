//! Addresses of an SCST target, and the meaning of `NAME#PORTAL` in its groups at these addresses.
//!
//! With `per_portal_acl`, SCST looks for `NAME#ADDRESS` in the groups of a target: the initiator's
//! name, and the address to which it connected. A map of Sandstone leads to all portals of a
//! target. So a target is taken over with those of its addresses at which the same names belong to
//! the same groups.

use std::net::IpAddr;

use super::parse::Node;
use crate::import::access::Name;
use model::{Error, pattern};

/// Splits a pattern of SCST: a leading `!` means all names that do not match.
pub(super) fn inverted(given: &str) -> (&str, bool) {
    match given.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (given, false),
    }
}

/// Reports whether a pattern of SCST matches a text.
fn matches(given: &str, text: &str) -> bool {
    let (pattern, inverted) = inverted(given);
    pattern::matches(pattern, text) != inverted
}

/// Reports whether `allowed_portal` lines let initiators in at an address. All inverted lines must
/// match, and one of the others if there are any.
fn allowed(patterns: &[&str], address: &str) -> bool {
    let (negative, positive): (Vec<&str>, Vec<&str>) = patterns
        .iter()
        .partition(|pattern| pattern.starts_with('!'));
    let fits = |pattern: &&str| matches(pattern, address);
    negative.iter().all(fits) && (positive.is_empty() || positive.iter().any(fits))
}

/// Returns the addresses of a target. The list is empty for all addresses of the machine; `None` if
/// they cannot be told.
pub(super) fn addresses(target: &Node) -> Result<Option<Vec<IpAddr>>, Error> {
    for node in target.all("allowed_portal") {
        node.has_args(1)?;
    }
    let patterns: Vec<_> = target
        .all("allowed_portal")
        .map(|node| node.arg(0))
        .collect();
    let mut named: Vec<IpAddr> = patterns.iter().filter_map(|p| p.parse().ok()).collect();
    if target.on("per_portal_acl")? {
        let groups = target.all("GROUP").flat_map(|group| group.all("INITIATOR"));
        let behind = groups.filter_map(|node| inverted(node.arg(0)).0.split_once('#'));
        named.extend(behind.filter_map(|(_, address)| address.parse::<IpAddr>().ok()));
    }
    let mut unique = Vec::new();
    for ip in named {
        if allowed(&patterns, &ip.to_string()) && !unique.contains(&ip) {
            unique.push(ip);
        }
    }
    Ok(match (unique.is_empty(), patterns.is_empty()) {
        (true, false) => None,
        _ => Some(unique),
    })
}

/// Returns the names that an INITIATOR line means for initiators that connect to `address`, or to
/// any address if it is `None`. Returns `None` if no pattern here can express them.
pub(super) fn names(given: &str, per_portal: bool, address: Option<IpAddr>) -> Option<Vec<Name>> {
    let (text, inverted) = inverted(given);
    if text.contains('!') {
        // SCST inverts the text after the `!`.
        return None;
    }
    let patterns = match (per_portal, address) {
        (false, _) => vec![text.to_owned()],
        (true, Some(address)) => before(text, &format!("#{address}")),
        (true, None) => anywhere(text)?,
    };
    // This does not let in a name with a `#` of its own; most likely an address was meant.
    let mut patterns = patterns
        .into_iter()
        .filter(|p| !p.is_empty() && !(p.contains('#') && (per_portal || !inverted)));
    if !inverted {
        return Some(patterns.map(|p| Name::new(&p, false)).collect());
    }
    match (patterns.next(), patterns.next()) {
        (None, _) => Some(vec![Name::everyone()]),
        (Some(one), None) => Some(vec![Name::new(&one, true)]),
        (Some(_), Some(_)) => None,
    }
}

/// Returns the patterns of all texts before `end` in a text that the pattern matches.
fn before(pattern: &str, end: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, c) in pattern.char_indices().chain([(pattern.len(), ' ')]) {
        if pattern::matches(&pattern[at..], end) {
            // The star itself may stand for characters on both sides.
            let star = if c == '*' { "*" } else { "" };
            let start = format!("{}{star}", &pattern[..at]);
            found.retain(|other| !pattern::covers(&start, other));
            if !found.iter().any(|other| pattern::covers(other, &start)) {
                found.push(start);
            }
        }
    }
    found
}

/// Returns patterns of initiators for any address; `None` if the names depend on the address.
fn anywhere(pattern: &str) -> Option<Vec<String>> {
    if let Some((name, address)) = pattern.split_once('#') {
        return (address == "*").then(|| vec![name.to_owned()]);
    }
    match pattern.find(['*', '?']) {
        None => Some(Vec::new()),
        Some(at) if pattern[at..].chars().all(|c| c == '*') => Some(vec![pattern.to_owned()]),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(given: &str, address: &str) -> Vec<String> {
        let names = names(given, true, address.parse().ok()).unwrap();
        assert!(
            names.iter().all(|name| name.wider.is_none()),
            "{given}: {names:?}"
        );
        names.into_iter().map(|name| name.pattern).collect()
    }

    #[test]
    fn a_name_with_a_portal_means_the_name_at_that_portal_only() {
        assert_eq!(
            patterns("iqn.2001-04.x:a#10.0.0.1", "10.0.0.1"),
            ["iqn.2001-04.x:a"]
        );
        assert_eq!(patterns("iqn.2001-04.x:a#10.0.0.1", "10.0.0.2").len(), 0);
        assert_eq!(patterns("*#*", "10.0.0.2"), ["*"]);
        assert_eq!(patterns("iqn.x*", "10.0.0.2"), ["iqn.x*"]);
        assert_eq!(patterns("iqn.x*#10.0.*", "10.0.0.2"), ["iqn.x*"]);
        assert_eq!(patterns("*#10.1.*", "10.0.0.2").len(), 0);
        // The 2 may be the name's or the address's.
        assert_eq!(patterns("*2", "10.0.0.2"), ["*"]);
        assert_eq!(patterns("iqn.2001-04.x:a", "10.0.0.2").len(), 0);
        // The names depend on the portal.
        assert_eq!(names("*2", true, None), None);
        assert_eq!(names("iqn.!x:a", false, None), None);
    }

    #[test]
    fn portals_are_allowed_as_iscsi_scstd_allows_them() {
        assert!(allowed(&[], "10.0.0.1"));
        assert!(allowed(&["10.0.*", "!10.0.1.*"], "10.0.0.1"));
        assert!(!allowed(&["10.0.*", "!10.0.1.*"], "10.0.1.1"));
        assert!(!allowed(&["!*"], "10.0.1.1"));
        assert!(allowed(&["!10.0.1.*"], "10.0.0.1"));
    }
}
