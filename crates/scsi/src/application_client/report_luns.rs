//! Reader of the answer to REPORT LUNS (SPC-4 6.33).

/// Logical units, as on the wire (SAM-5 4.6). If the list was cut, `needed` is the number of bytes
/// to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LunList {
    /// Eight-byte LUNs.
    pub luns: Vec<u64>,
    /// Length of the whole answer in bytes.
    pub needed: u32,
}

/// Reads the parameter data. Returns `None` if the data is too short to be a list.
pub fn parse(data: &[u8]) -> Option<LunList> {
    let length = u32::from_be_bytes(*data.first_chunk()?);
    let list = data.get(8..)?;
    let list = &list[..list.len().min(length as usize)];
    let luns = list.as_chunks::<8>().0.iter();
    Some(LunList {
        luns: luns.map(|lun| u64::from_be_bytes(*lun)).collect(),
        needed: length.saturating_add(8),
    })
}

/// Returns the number by which people call a LUN: single-level addressing, peripheral or flat
/// (SAM-5 4.6.7). Other LUNs have none.
pub fn number(lun: u64) -> Option<u16> {
    let bytes = lun.to_be_bytes();
    let rest_is_zero = bytes[2..] == [0; 6];
    match bytes[0] >> 6 {
        0 if rest_is_zero && bytes[0] == 0 => Some(u16::from(bytes[1])),
        1 if rest_is_zero => Some(u16::from_be_bytes([bytes[0] & 0x3f, bytes[1]])),
        _ => None,
    }
}

/// Returns the LUN of a number: peripheral addressing below 256, flat addressing above (SAM-5
/// 4.6.7). 14 bits count.
pub fn from_number(number: u16) -> u64 {
    let method = if number < 256 { 0 } else { 0x4000 };
    u64::from(method | (number & 0x3fff)) << 48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_may_be_cut_anywhere() {
        let mut data = vec![0, 0, 0, 16, 0, 0, 0, 0];
        data.extend_from_slice(&from_number(1).to_be_bytes());
        data.extend_from_slice(&from_number(300).to_be_bytes());
        let list = parse(&data).expect("a list");
        assert_eq!((list.luns.len(), list.needed), (2, 24));
        assert_eq!(number(list.luns[1]), Some(300));
        for cut in 0..data.len() {
            let luns = parse(&data[..cut]).map(|list| list.luns.len());
            assert_eq!(luns, (cut >= 8).then(|| (cut - 8) / 8));
        }
    }

    #[test]
    fn numbers_and_luns_are_one_to_one() {
        for n in 0..0x4000 {
            assert_eq!(number(from_number(n)), Some(n));
        }
        assert_eq!(number(0xc101_0000_0000_0000), None);
        assert_eq!(number(0x0001_0002_0000_0000), None);
    }
}
