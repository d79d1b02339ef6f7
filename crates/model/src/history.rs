//! History of figures: what the daemon remembers of units, pools, disks, hosts and port groups, in
//! the words of the API.
//!
//! The crate `history` keeps it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::pool::outlook::FillOutlook;

/// Kind of object that has a history.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryKind {
    /// Logical units.
    Unit,
    /// Pools.
    Pool,
    /// Devices of pools.
    Disk,
    /// Hosts, and initiators that belong to no host.
    Host,
    /// Port groups of targets.
    PortGroup,
}

impl HistoryKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Unit,
        Self::Pool,
        Self::Disk,
        Self::Host,
        Self::PortGroup,
    ];

    /// Returns the word for an object of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Pool => "pool",
            Self::Disk => "disk",
            Self::Host => "host",
            Self::PortGroup => "port-group",
        }
    }

    /// Returns the kind that a word names.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "lu" => Some(Self::Unit),
            _ => Self::ALL.into_iter().find(|kind| kind.as_str() == word),
        }
    }
}

/// Time that a history covers. A longer time has longer steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Span {
    /// Six hours, minute by minute.
    #[default]
    #[serde(rename = "6h")]
    SixHours,
    /// Fourteen days, in steps of ten minutes.
    #[serde(rename = "14d")]
    FourteenDays,
    /// Two years, in steps of six hours.
    #[serde(rename = "2y")]
    TwoYears,
}

impl Span {
    /// All spans, the shortest first.
    pub const ALL: [Self; 3] = [Self::SixHours, Self::FourteenDays, Self::TwoYears];

    /// Returns the word for the span.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SixHours => "6h",
            Self::FourteenDays => "14d",
            Self::TwoYears => "2y",
        }
    }

    /// Returns the span that a word names.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|span| span.as_str() == word)
    }
}

/// Object that has a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryObject {
    /// Name of the object, as of the last time it was there.
    pub name: String,
    /// Identity of the object, which stays when the name changes: the number of a pool or of a
    /// device, otherwise the name.
    pub key: String,
    /// Whether the object was there in the last minute that was recorded.
    pub is_present: bool,
    /// Time of the last record of the object, in seconds since 1970. `None` means that there is no
    /// record yet.
    pub last_seen_unix_s: Option<u64>,
}

/// History of one object over one span, in equal steps of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistoryView {
    /// Kind of the object.
    pub kind: HistoryKind,
    /// Name of the object, as of the last time it was there.
    pub name: String,
    /// Identity of the object.
    pub key: String,
    /// Time that is covered.
    pub span: Span,
    /// Seconds from one point to the next.
    pub step_s: u64,
    /// Start of each step, in seconds since 1970. The last step may be under way.
    pub unix_s: Vec<u64>,
    /// Figures, each with one value for each step.
    pub series: Vec<Series>,
    /// Time until the pool is full, if the object is a pool and at least two days are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<FillOutlook>,
}

/// Values of one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Series {
    /// Name of the figure.
    pub name: String,
    /// Unit of the values.
    pub unit: SeriesUnit,
    /// Value of each step. `null` is a gap: nothing was recorded, or there was nothing to measure.
    pub values: Vec<Option<f64>>,
}

/// Unit of the values of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeriesUnit {
    /// Commands or operations in a second.
    PerSecond,
    /// Bytes in a second.
    BytesPerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_api() {
        for kind in HistoryKind::ALL {
            let word = serde_json::to_value(kind).expect("JSON");
            assert_eq!(word, kind.as_str());
            assert_eq!(HistoryKind::of_word(kind.as_str()), Some(kind));
        }
        for span in Span::ALL {
            let word = serde_json::to_value(span).expect("JSON");
            assert_eq!(word, span.as_str());
            assert_eq!(Span::of_word(span.as_str()), Some(span));
        }
        assert_eq!(HistoryKind::of_word("lu"), Some(HistoryKind::Unit));
        assert_eq!(HistoryKind::of_word("units"), None);
        assert_eq!(Span::of_word("1d"), None);
    }
}
