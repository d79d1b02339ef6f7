//! iSCSI TransportID (SPC-4 7.6.4.6): an initiator port, or all ports of an initiator, by name.
//!
//! It comes from the initiator as text with lengths of its own, so nothing in it is trusted. Wrong
//! lengths, a missing NUL, an overlong name and a malformed ISID are all refused.

use crate::nexus::InitiatorPort;

/// iSCSI TransportID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportId {
    /// iSCSI name with ASCII letters in lower case, as every port name in a device server.
    pub name: String,
    /// ISID (TPID FORMAT 01b). `None` names all ports of the initiator (TPID FORMAT 00b).
    pub isid: Option<[u8; 6]>,
}

/// PROTOCOL IDENTIFIER: iSCSI.
const PROTOCOL_ISCSI: u8 = 0x5;
/// Longest iSCSI name in bytes (RFC 7143 4.2.7.1).
const MAX_NAME_LEN: usize = 223;
/// Smallest ADDITIONAL LENGTH.
const MIN_ADDITIONAL_LEN: usize = 20;
const SEPARATOR: &str = ",i,0x";

impl TransportId {
    /// Reads one TransportID from the front of `bytes`, and returns the number of bytes it took.
    /// Returns `None` if the bytes are not a well-formed iSCSI TransportID.
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let (header, rest) = bytes.split_at_checked(4)?;
        if header[0] & 0x0F != PROTOCOL_ISCSI {
            return None;
        }
        let additional = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if additional < MIN_ADDITIONAL_LEN || !additional.is_multiple_of(4) {
            return None;
        }
        let text = rest.get(..additional)?;
        let end = text.iter().position(|&byte| byte == 0)?;
        let (text, padding) = text.split_at(end);
        if padding.iter().any(|&byte| byte != 0) {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        let (name, isid) = match header[0] >> 6 {
            0b00 => (text, None),
            0b01 => {
                let (name, digits) = text.split_once(SEPARATOR)?;
                (name, Some(parse_isid(digits)?))
            }
            _ => return None,
        };
        if name.is_empty() || name.len() > MAX_NAME_LEN || name.contains(',') {
            return None;
        }
        let id = Self {
            name: name.to_ascii_lowercase(),
            isid,
        };
        Some((id, 4 + additional))
    }

    /// Returns the initiator port if exactly one is named.
    pub fn initiator_port(&self) -> Option<InitiatorPort> {
        Some(InitiatorPort {
            name: self.name.clone(),
            isid: self.isid?,
        })
    }

    /// Appends the TransportID of an initiator port (TPID FORMAT 01b).
    pub(crate) fn encode(port: &InitiatorPort, out: &mut Vec<u8>) {
        let mut text = port.name.clone();
        text.push_str(SEPARATOR);
        for byte in port.isid {
            text.push_str(&format!("{byte:02x}"));
        }
        // The text ends with a NUL, then zeros up to a multiple of four.
        let additional = (text.len() + 1).next_multiple_of(4).max(MIN_ADDITIONAL_LEN);
        out.extend_from_slice(&[0x40 | PROTOCOL_ISCSI, 0]);
        // An iSCSI name has at most 223 bytes. A name from elsewhere is cut rather than wrapped.
        out.extend_from_slice(&u16::try_from(additional).unwrap_or(0xFFFC).to_be_bytes());
        let start = out.len();
        out.extend_from_slice(text.as_bytes());
        out.resize(start + additional, 0);
    }
}

/// Reads one to twelve hexadecimal digits, as a number of six bytes.
fn parse_isid(digits: &str) -> Option<[u8; 6]> {
    if digits.is_empty() || digits.len() > 12 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let value = u64::from_str_radix(digits, 16).ok()?;
    let [_, _, isid @ ..] = value.to_be_bytes();
    Some(isid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(format: u8, text: &[u8], additional: u16) -> Vec<u8> {
        let mut bytes = vec![format << 6 | PROTOCOL_ISCSI, 0];
        bytes.extend_from_slice(&additional.to_be_bytes());
        bytes.extend_from_slice(text);
        bytes
    }

    fn padded(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize((text.len() + 1).next_multiple_of(4).max(20), 0);
        bytes
    }

    #[test]
    fn what_is_encoded_parses_back() {
        for name in [
            "iqn.a:x",
            "iqn.1994-05.com.redhat:abcdef012345",
            &"n".repeat(223),
        ] {
            let port = InitiatorPort {
                name: name.into(),
                isid: [0x00, 0x02, 0x3d, 0, 0, 7],
            };
            let mut bytes = Vec::new();
            TransportId::encode(&port, &mut bytes);
            bytes.extend_from_slice(&[0xEE; 3]);
            let (id, taken) = TransportId::parse(&bytes).unwrap();
            assert_eq!(taken, bytes.len() - 3);
            assert!(taken.is_multiple_of(4));
            assert_eq!(id.initiator_port(), Some(port));
        }
    }

    #[test]
    fn a_name_alone_means_all_ports() {
        let text = padded("iqn.2001-04.com.Example:host");
        let bytes = raw(0, &text, text.len() as u16);
        let (id, _) = TransportId::parse(&bytes).unwrap();
        assert_eq!(id.name, "iqn.2001-04.com.example:host");
        assert_eq!(id.initiator_port(), None);
    }

    #[test]
    fn malformed_ones_are_refused() {
        let good = padded("iqn.2001-04.com.example:host,i,0x00023d000001");
        let len = good.len() as u16;
        assert!(TransportId::parse(&raw(1, &good, len)).is_some());
        let no_nul = [b'x'; 24];
        let long = padded(&"n".repeat(224));
        let mut dirty = good.clone();
        *dirty.last_mut().unwrap() = 1;
        for bad in [
            vec![],
            vec![0x45, 0, 0],
            raw(1, &good, len + 4),         // longer than the bytes that came
            raw(1, &good, len - 1),         // not a multiple of four
            raw(1, &good, 16),              // shorter than the minimum
            raw(1, &good, 20),              // cuts the NUL off
            raw(0, &no_nul, 24),            // no NUL at all
            raw(1, &padded("iqn.x:y"), 20), // no ISID
            raw(1, &padded("iqn.x:y,i,0x"), 20), // empty ISID
            raw(1, &padded("iqn.x:y,i,0xg1"), 20), // not hexadecimal
            raw(1, &padded("iqn.x:y,i,0x+1"), 20), // not a digit
            raw(1, &padded("a,i,0x0123456789abc"), 20), // thirteen digits
            raw(1, &padded(",i,0x01"), 20), // no name
            raw(0, &padded(""), 20),        // no name
            raw(0, &long, long.len() as u16), // name too long
            raw(2, &good, len),             // reserved format
            raw(1, &dirty, len),            // bytes behind the NUL
        ] {
            assert_eq!(TransportId::parse(&bad), None, "{bad:02x?}");
        }
        let mut fibre_channel = raw(0, &good, len);
        fibre_channel[0] = 0;
        assert_eq!(TransportId::parse(&fibre_channel), None);
    }
}
