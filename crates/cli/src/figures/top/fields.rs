//! Views and their columns, with esxtop's names and letters.

use serde::{Deserialize, Serialize};

/// View, by the letter that shows it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(super) enum View {
    /// `d`: port groups, or on the initiator's side sessions.
    Adapters,
    /// `u`: logical units, or on the initiator's side devices.
    #[default]
    Devices,
    /// `v`: hosts and the units that they use.
    Hosts,
    /// `n`: network interfaces.
    Network,
    /// `p`: disks of pools.
    Pools,
}

/// Column of a view.
#[derive(Debug)]
pub(super) struct Field {
    /// Title of the column.
    pub(super) title: &'static str,
    /// Number of characters of its cells. Columns of names take the width that the user chose.
    pub(super) width: u16,
    /// Whether the column has words, which stand left.
    pub(super) is_words: bool,
    /// Order in which columns give way on a narrow screen: the highest goes first.
    pub(super) rank: u8,
    /// Whether the column is shown unless the user says otherwise.
    pub(super) is_default: bool,
    /// Whether the column tells a quantile, and is shown while `9` is on.
    pub(super) is_quantile: bool,
}

const fn number(title: &'static str, width: u16, rank: u8) -> Field {
    Field {
        title,
        width,
        is_words: false,
        rank,
        is_default: true,
        is_quantile: false,
    }
}

const fn words(title: &'static str, width: u16, rank: u8) -> Field {
    Field {
        title,
        width,
        is_words: true,
        rank,
        is_default: true,
        is_quantile: false,
    }
}

const fn hidden(title: &'static str, rank: u8) -> Field {
    Field {
        title,
        width: 8,
        is_words: false,
        rank,
        is_default: false,
        is_quantile: false,
    }
}

const fn quantile(title: &'static str, rank: u8) -> Field {
    Field {
        title,
        width: 8,
        is_words: false,
        rank,
        is_default: false,
        is_quantile: true,
    }
}

const ADAPTERS: &[Field] = &[
    words("ADAPTR", 0, 0),
    words("PATH", 20, 9),
    number("NPTH", 5, 6),
    number("AQLEN", 6, 8),
    number("CMDS/s", 9, 1),
    number("READS/s", 9, 3),
    number("WRITES/s", 9, 3),
    number("MBREAD/s", 9, 4),
    number("MBWRTN/s", 9, 4),
    number("DAVG/cmd", 8, 2),
    number("KAVG/cmd", 8, 2),
    number("GAVG/cmd", 8, 5),
    number("QAVG/cmd", 8, 7),
    hidden("DAVG/rd", 10),
    hidden("KAVG/rd", 10),
    hidden("GAVG/rd", 10),
    hidden("QAVG/rd", 10),
    hidden("DAVG/wr", 11),
    hidden("KAVG/wr", 11),
    hidden("GAVG/wr", 11),
    hidden("QAVG/wr", 11),
    quantile("P50/rd", 6),
    quantile("P99/rd", 2),
    quantile("P50/wr", 6),
    quantile("P99/wr", 2),
];

const DEVICES: &[Field] = &[
    words("DEVICE", 0, 0),
    words("PATH/WORLD/PARTITION", 20, 9),
    number("DQLEN", 6, 8),
    number("WQLEN", 6, 10),
    number("ACTV", 5, 5),
    number("QUED", 5, 6),
    number("%USD", 6, 9),
    number("LOAD", 6, 9),
    number("CMDS/s", 9, 1),
    number("READS/s", 9, 3),
    number("WRITES/s", 9, 3),
    number("MBREAD/s", 9, 4),
    number("MBWRTN/s", 9, 4),
    number("DAVG/cmd", 8, 2),
    number("KAVG/cmd", 8, 2),
    number("GAVG/cmd", 8, 5),
    number("QAVG/cmd", 8, 7),
    hidden("DAVG/rd", 10),
    hidden("KAVG/rd", 10),
    hidden("GAVG/rd", 10),
    hidden("QAVG/rd", 10),
    hidden("DAVG/wr", 11),
    hidden("KAVG/wr", 11),
    hidden("GAVG/wr", 11),
    hidden("QAVG/wr", 11),
    quantile("P50/rd", 6),
    quantile("P99/rd", 2),
    quantile("P50/wr", 6),
    quantile("P99/wr", 2),
];

const HOSTS: &[Field] = &[
    number("GID", 5, 7),
    words("VMNAME", 0, 0),
    words("VDEVNAME", 16, 1),
    number("NVDISK", 6, 6),
    number("CMDS/s", 9, 1),
    number("READS/s", 9, 3),
    number("WRITES/s", 9, 3),
    number("MBREAD/s", 9, 4),
    number("MBWRTN/s", 9, 4),
    number("LAT/rd", 8, 2),
    number("LAT/wr", 8, 2),
];

const NETWORK: &[Field] = &[
    number("PORT-ID", 8, 5),
    words("USED-BY", 0, 0),
    words("TEAM-PNIC", 10, 6),
    words("DNAME", 10, 6),
    number("PKTTX/s", 10, 2),
    number("MbTX/s", 9, 1),
    number("PKTRX/s", 10, 2),
    number("MbRX/s", 9, 1),
    number("%DRPTX", 7, 3),
    number("%DRPRX", 7, 3),
];

const POOLS: &[Field] = &[
    words("POOL/VDEV/DISK", 0, 0),
    words("ALLOC", 7, 6),
    words("FREE", 7, 6),
    number("CMDS/s", 9, 5),
    number("READS/s", 9, 1),
    number("WRITES/s", 9, 1),
    number("MBREAD/s", 9, 2),
    number("MBWRTN/s", 9, 2),
    number("DAVG/rd", 8, 3),
    number("DAVG/wr", 8, 3),
    number("GAVG/rd", 8, 4),
    number("GAVG/wr", 8, 4),
];

impl View {
    /// All views, in the order of the help.
    pub(super) const ALL: [Self; 5] = [
        Self::Adapters,
        Self::Devices,
        Self::Hosts,
        Self::Network,
        Self::Pools,
    ];

    /// Returns the letter that shows the view.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Adapters => 'd',
            Self::Devices => 'u',
            Self::Hosts => 'v',
            Self::Network => 'n',
            Self::Pools => 'p',
        }
    }

    /// Returns the view of a letter.
    pub(super) fn of(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|view| view.letter() == letter)
    }

    /// Returns the name of the view.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Adapters => "adapters",
            Self::Devices => "devices",
            Self::Hosts => "hosts",
            Self::Network => "network",
            Self::Pools => "pools",
        }
    }

    /// Returns all columns of the view.
    pub(super) fn fields(self) -> &'static [Field] {
        match self {
            Self::Adapters => ADAPTERS,
            Self::Devices => DEVICES,
            Self::Hosts => HOSTS,
            Self::Network => NETWORK,
            Self::Pools => POOLS,
        }
    }

    /// Returns the number of the column with a title.
    pub(super) fn field(self, title: &str) -> Option<usize> {
        self.fields().iter().position(|field| field.title == title)
    }

    /// Returns the column by which a key sorts. `None` means that the key does not sort this view.
    pub(super) fn sorted_by(self, key: char) -> Option<usize> {
        let title = match (self, key) {
            (Self::Network, 't' | 'w') => "PKTTX/s",
            (Self::Network, 'r') => "PKTRX/s",
            (Self::Network, 'T') => "MbTX/s",
            (Self::Network, 'R') => "MbRX/s",
            (_, 'r') => "READS/s",
            (_, 'w') => "WRITES/s",
            (_, 'R') => "MBREAD/s",
            (_, 'T') => "MBWRTN/s",
            _ => return None,
        };
        self.field(title)
    }

    /// Reports whether rows show what is beneath them unless the user closes them.
    pub(super) fn opens_rows(self) -> bool {
        matches!(self, Self::Hosts | Self::Pools)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_has_a_letter_a_name_and_columns_of_its_own() {
        for view in View::ALL {
            assert_eq!(View::of(view.letter()), Some(view));
            let mut titles: Vec<&str> = view.fields().iter().map(|field| field.title).collect();
            // Each column has a letter in the lists of columns.
            let choosable = view.fields().iter().filter(|field| !field.is_quantile);
            assert!(choosable.count() <= 26, "{view:?}");
            titles.sort_unstable();
            titles.dedup();
            assert_eq!(titles.len(), view.fields().len(), "{view:?}");
            // Exactly one column takes the width for names, and it is never given up.
            let names = view.fields().iter().filter(|field| field.width == 0);
            let ranks: Vec<u8> = names.map(|field| field.rank).collect();
            assert_eq!(ranks, [0], "{view:?}");
            for key in ['r', 'w', 'R', 'T'] {
                assert!(view.sorted_by(key).is_some(), "{view:?} {key}");
            }
        }
    }
}
