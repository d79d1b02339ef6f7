//! Reader of the answer to REPORT TARGET PORT GROUPS, and writer of the list for SET TARGET PORT
//! GROUPS (SPC-4 6.37, 6.45).

/// Asymmetric access state (SPC-4 5.15.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessState {
    /// Active/optimized.
    ActiveOptimized,
    /// Active/non-optimized.
    ActiveNonOptimized,
    /// Standby.
    Standby,
    /// Unavailable.
    Unavailable,
    /// Offline.
    Offline,
    /// Change from one state to another.
    Transitioning,
}

impl AccessState {
    /// Reports whether the group serves every command.
    pub fn is_active(self) -> bool {
        matches!(self, Self::ActiveOptimized | Self::ActiveNonOptimized)
    }

    /// Returns the state of a code, or `None` if the code is reserved.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x0 => Self::ActiveOptimized,
            0x1 => Self::ActiveNonOptimized,
            0x2 => Self::Standby,
            0x3 => Self::Unavailable,
            0xe => Self::Offline,
            0xf => Self::Transitioning,
            _ => return None,
        })
    }
}

/// One group of target ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPortGroup {
    /// TARGET PORT GROUP.
    pub group: u16,
    /// State of the group.
    pub state: AccessState,
    /// PREF: the device server prefers requests through this group.
    pub preferred: bool,
    /// Relative target port identifiers.
    pub ports: Vec<u16>,
}

/// Reads the parameter data. Cut or unknown groups are left out.
pub fn parse(data: &[u8]) -> Vec<TargetPortGroup> {
    let Some(length) = data.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)) else {
        return Vec::new();
    };
    let mut rest = &data[4..data.len().min((length as usize).saturating_add(4))];
    let mut groups = Vec::new();
    while let Some(header) = rest.first_chunk::<8>() {
        let count = usize::from(header[7]);
        let Some(ports) = rest.get(8..8 + count * 4) else {
            break;
        };
        if let Some(state) = AccessState::from_code(header[0] & 0xf) {
            let ports = ports.as_chunks::<4>().0.iter();
            groups.push(TargetPortGroup {
                group: u16::from_be_bytes([header[2], header[3]]),
                state,
                preferred: header[0] & 0x80 != 0,
                ports: ports
                    .map(|port| u16::from_be_bytes([port[2], port[3]]))
                    .collect(),
            });
        }
        rest = &rest[8 + count * 4..];
    }
    groups
}

/// Builds the parameter list that makes `group` active/optimized.
pub fn activate(group: u16) -> [u8; 8] {
    let [high, low] = group.to_be_bytes();
    [0, 0, 0, 0, 0, 0, high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_and_cut_ones_left_out() {
        let data = [
            0, 0, 0, 24, // length
            0x81, 0x8f, 0, 1, 0, 0, 0, 1, 0, 0, 0, 5, // group 1, preferred, non-optimized
            0x02, 0x8f, 0, 2, 0, 0, 0, 1, 0, 0, 0, 6, // group 2, standby
        ];
        let groups = parse(&data);
        assert_eq!(groups.len(), 2);
        assert_eq!(
            (groups[0].group, groups[0].state, groups[0].preferred),
            (1, AccessState::ActiveNonOptimized, true)
        );
        assert_eq!(
            (&groups[1].ports[..], groups[1].state),
            (&[6][..], AccessState::Standby)
        );
        for cut in 0..data.len() {
            assert_eq!(parse(&data[..cut]).len(), usize::from(cut >= 16));
        }
    }
}
