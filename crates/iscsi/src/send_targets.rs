//! Answer of SendTargets as data, which a target shows and an initiator reads (RFC 7143 Appendix
//! C).

use crate::name;
use crate::text_keys::{TextError, TextOutput, TextPairs};

/// Target as SendTargets shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredTarget {
    /// iSCSI name of the target.
    pub name: String,
    /// Portals of the target. An empty list means the address that was asked.
    pub portals: Vec<DiscoveredPortal>,
}

/// Portal as SendTargets shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredPortal {
    /// Address as `host:port`, with IPv6 addresses in brackets.
    pub address: String,
    /// Target portal group tag.
    pub portal_group_tag: u16,
}

/// Writes one target.
pub fn push(target: &DiscoveredTarget, out: &mut TextOutput) {
    out.push("TargetName", &target.name);
    for portal in &target.portals {
        out.push(
            "TargetAddress",
            format_args!("{},{}", portal.address, portal.portal_group_tag),
        );
    }
}

/// SendTargets answer as an initiator reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Targets that can be used, in the order of the answer.
    pub targets: Vec<DiscoveredTarget>,
    /// All that cannot be used, in words.
    pub left_out: Vec<String>,
}

/// Reads a whole answer. A pair that cannot be used costs only its target or address. Addresses
/// before any name and keys of other kinds are skipped.
pub fn parse(text: &[u8]) -> Answer {
    let mut reader = Reader::default();
    for piece in text.split_inclusive(|byte| *byte == 0) {
        match TextPairs::new(piece).next() {
            Some(Ok(("TargetName", name))) => reader.target(name),
            Some(Ok(("TargetAddress", value))) => reader.address(value),
            Some(Ok(_)) | None => {}
            Some(Err(error)) => reader.malformed(piece, error),
        }
    }
    reader.end_target();
    reader.answer
}

/// Answer that is being read.
#[derive(Default)]
struct Reader {
    answer: Answer,
    /// Target to which addresses belong.
    target: Option<DiscoveredTarget>,
    /// Whether an address of that target cannot be used.
    lacks_address: bool,
}

impl Reader {
    fn target(&mut self, name: &str) {
        self.end_target();
        match name::check(name) {
            Ok(()) => {
                self.target = Some(DiscoveredTarget {
                    name: name.to_owned(),
                    portals: Vec::new(),
                });
            }
            Err(fault) => self.leave_out(format!("target {}: {fault}", shown(name.as_bytes()))),
        }
    }

    fn address(&mut self, value: &str) {
        let Some(target) = &mut self.target else {
            return;
        };
        // The tag is optional in a redirect only. A target that omits it here has one group.
        let (address, tag) = value.rsplit_once(',').unwrap_or((value, "1"));
        if let Ok(portal_group_tag) = tag.parse() {
            target.portals.push(DiscoveredPortal {
                address: address.to_owned(),
                portal_group_tag,
            });
            return;
        }
        let value = shown(value.as_bytes());
        let what = format!(
            "address {value} of {}: its portal group tag is not a number",
            target.name
        );
        self.lacks_address = true;
        self.leave_out(what);
    }

    fn malformed(&mut self, piece: &[u8], error: TextError) {
        if piece.starts_with(b"TargetName") {
            self.end_target();
        }
        self.lacks_address |= piece.starts_with(b"TargetAddress");
        self.leave_out(format!("{}: {error}", shown(piece)));
    }

    /// Ends the addresses of the target. A target without any address is at the address that was
    /// asked, unless it named others.
    fn end_target(&mut self) {
        let lacks_address = std::mem::take(&mut self.lacks_address);
        match self.target.take() {
            Some(target) if target.portals.is_empty() && lacks_address => {
                self.leave_out(format!(
                    "target {}: none of its addresses can be used",
                    target.name
                ));
            }
            Some(target) => self.answer.targets.push(target),
            None => {}
        }
    }

    fn leave_out(&mut self, what: String) {
        self.answer.left_out.push(what);
    }
}

/// Returns bytes of a peer as text for people: short, and without anything that a terminal would
/// obey.
fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 80;
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches('\0');
    let mut short: String = text.chars().take(MOST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(answer: &Answer) -> Vec<&str> {
        answer.targets.iter().map(|t| t.name.as_str()).collect()
    }

    #[test]
    fn what_cannot_be_used_costs_nothing_else() {
        let text = b"TargetName=good-1\0TargetAddress=a:3260,1\0TargetName=b\x1bad\0TargetAddress=evil:3260,1\0\
TargetName=iqn.2026-01.A:b\0TargetAddress=h,x\0TargetAddress=h:3261,2\0TargetName=a,b\0TargetAddress=evil:3260,1\0\
TargetName=no-\xff\0TargetAddress=evil:3260,1\0X-key=1\0nonsense\0TargetName=last";
        let answer = parse(text);
        assert_eq!(names(&answer), ["good-1", "iqn.2026-01.A:b"]);
        let portals: Vec<&str> = answer
            .targets
            .iter()
            .flat_map(|t| t.portals.iter().map(|p| p.address.as_str()))
            .collect();
        assert_eq!(portals, ["a:3260", "h:3261"]);
        assert_eq!(
            answer.left_out,
            [
                "\"TargetName=b\\u{1b}ad\": malformed text value",
                "address \"h,x\" of iqn.2026-01.A:b: its portal group tag is not a number",
                "target \"a,b\": it holds a comma, which separates names",
                "\"TargetName=no-\u{fffd}\": malformed text value",
                "\"nonsense\": text pair without '='",
                "\"TargetName=last\": text does not end with NUL",
            ]
        );
    }

    #[test]
    fn a_target_whose_addresses_are_all_useless_is_not_looked_for_elsewhere() {
        let answer = parse(
            b"TargetName=a\0TargetAddress=h,x\0TargetName=b\0TargetAddress=\xff\0TargetName=c\0",
        );
        assert_eq!(names(&answer), ["c"]);
        let told = answer.left_out.concat();
        assert!(told.contains("target a: none of its addresses"), "{told}");
        assert!(told.contains("target b: none of its addresses"), "{told}");
    }

    #[test]
    fn names_that_differ_in_case_are_two_targets() {
        let answer = parse(b"TargetName=iqn.2000-01.x:A\0TargetName=iqn.2000-01.x:a\0");
        assert_eq!(names(&answer), ["iqn.2000-01.x:A", "iqn.2000-01.x:a"]);
    }

    #[test]
    fn a_long_oddity_is_cut_and_never_obeyed() {
        let text = [b"TargetName=", &[b'\x1b'; 4000][..], b"\0"].concat();
        let answer = parse(&text);
        assert!(answer.left_out[0].len() < 800 && !answer.left_out[0].contains('\x1b'));
    }
}
