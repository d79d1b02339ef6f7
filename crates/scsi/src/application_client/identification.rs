//! Identity of a logical unit: standard INQUIRY data and the Device Identification page (SPC-4
//! 6.6.2, 7.8.6).

use std::fmt::Write as _;

/// Content of the standard INQUIRY data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inquiry {
    /// Peripheral device type: 0 for a disk.
    pub device_type: u8,
    /// Whether there is a logical unit at all (peripheral qualifier 000b).
    pub connected: bool,
    /// T10 VENDOR IDENTIFICATION without padding.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION without padding.
    pub model: String,
    /// PRODUCT REVISION LEVEL without padding.
    pub revision: String,
    /// TPGS: 0 none, 1 implicit, 2 explicit, 3 both.
    pub tpgs: u8,
    /// VERSION.
    pub version: u8,
}

impl Inquiry {
    /// Reads the data. Returns `None` if the data is shorter than the standard's 36 bytes.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let data: &[u8; 36] = data.first_chunk()?;
        Some(Self {
            device_type: data[0] & 0x1f,
            connected: data[0] >> 5 == 0,
            vendor: ascii(&data[8..16]),
            model: ascii(&data[16..32]),
            revision: ascii(&data[32..36]),
            tpgs: data[5] >> 4 & 3,
            version: data[2],
        })
    }
}

/// Returns printable ASCII without padding. A device's text about itself ends on terminals.
fn ascii(bytes: &[u8]) -> String {
    let printable = |byte: &u8| match *byte {
        byte @ 0x20..=0x7e => char::from(byte),
        0 => ' ',
        _ => '?',
    };
    let text: String = bytes.iter().map(printable).collect();
    text.trim().to_owned()
}

/// Content of the Device Identification page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identification {
    /// Name of the logical unit as ESXi writes it: `naa.…`, `eui.…` or `t10.…`. The most
    /// trustworthy name of the page is taken.
    pub name: Option<String>,
    /// TARGET PORT GROUP of the port that answered.
    pub target_port_group: Option<u16>,
    /// RELATIVE TARGET PORT IDENTIFIER of the port that answered.
    pub relative_target_port: Option<u16>,
}

impl Identification {
    /// Reads page 83h. Descriptors that are cut or unknown are skipped.
    pub fn parse(page: &[u8]) -> Self {
        let mut found = Self::default();
        let mut best = 0;
        let Some([_, 0x83, high, low]) = page.first_chunk::<4>() else {
            return found;
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let mut rest = &page[4..page.len().min(4 + length)];
        while let Some(header) = rest.first_chunk::<4>() {
            let length = usize::from(header[3]);
            let Some(value) = rest.get(4..4 + length) else {
                break;
            };
            found.take(header, value, &mut best);
            rest = &rest[4 + length..];
        }
        found
    }

    fn take(&mut self, header: &[u8; 4], value: &[u8], best: &mut u8) {
        let (code_set, association, kind) = (header[0] & 0xf, header[1] >> 4 & 3, header[1] & 0xf);
        match (association, kind) {
            (0, 1..=3) => {
                let (rank, name) = match kind {
                    // NAA IEEE registered extended goes before the shorter names, as hosts prefer
                    // it.
                    3 if value.len() == 16 => (5, format!("naa.{}", hex(value))),
                    3 if value.len() == 8 => (4, format!("naa.{}", hex(value))),
                    2 if matches!(value.len(), 8 | 12 | 16) => (3, format!("eui.{}", hex(value))),
                    1 if value.len() > 8 => (2, t10(code_set, value)),
                    _ => return,
                };
                if rank > *best {
                    (*best, self.name) = (rank, Some(name));
                }
            }
            (1, 4) if value.len() == 4 => {
                self.relative_target_port = Some(u16::from_be_bytes([value[2], value[3]]));
            }
            (1, 5) if value.len() == 4 => {
                self.target_port_group = Some(u16::from_be_bytes([value[2], value[3]]));
            }
            _ => {}
        }
    }
}

fn t10(code_set: u8, value: &[u8]) -> String {
    if code_set == 1 {
        return format!("t10.{}", hex(value));
    }
    // ESXi fills blanks so that the name is one word.
    let word = value.iter().map(|byte| match byte {
        0x21..=0x7e => char::from(*byte),
        _ => '_',
    });
    let text: String = word.collect();
    format!("t10.{}", text.trim_end_matches('_'))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(descriptors: &[&[u8]]) -> Vec<u8> {
        let body = descriptors.concat();
        let mut page = vec![0, 0x83];
        page.extend_from_slice(&(body.len() as u16).to_be_bytes());
        page.extend_from_slice(&body);
        page
    }

    #[test]
    fn the_most_trustworthy_name_wins() {
        let t10 = [&[2, 1, 0, 12], &b"SANDSTONvol1"[..]].concat();
        let naa = [
            &[1, 3, 0, 16][..],
            &[
                0x60, 0x01, 0x44, 0xf0, 9, 0xd4, 0xd2, 0x36, 0, 0, 0x56, 0x91, 0x8f, 0x92, 0, 2,
            ],
        ]
        .concat();
        let group = [1, 0x15, 0, 4, 0, 0, 0, 7];
        let port = [1, 0x14, 0, 4, 0, 0, 1, 2];
        let found = Identification::parse(&page(&[&t10, &naa, &group, &port]));
        assert_eq!(
            found.name.as_deref(),
            Some("naa.600144f009d4d236000056918f920002")
        );
        assert_eq!(found.target_port_group, Some(7));
        assert_eq!(found.relative_target_port, Some(0x102));
        let found = Identification::parse(&page(&[&t10]));
        assert_eq!(found.name.as_deref(), Some("t10.SANDSTONvol1"));
    }

    #[test]
    fn names_are_fit_for_a_terminal() {
        let mut data = [b' '; 36];
        data[0] = 0;
        data[5] = 0x10;
        data[8..16].copy_from_slice(b"SUN\x1b[2J ");
        let inquiry = Inquiry::parse(&data).expect("long enough");
        assert_eq!((inquiry.vendor.as_str(), inquiry.tpgs), ("SUN?[2J", 1));
        assert!(Inquiry::parse(&data[..35]).is_none());
    }

    proptest! {
        #[test]
        fn arbitrary_pages_never_panic(page in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Identification::parse(&page);
            let _ = Inquiry::parse(&page);
        }
    }
}
