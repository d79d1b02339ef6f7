//! Operational keys of RFC 7143 §13 and RFC 7144 §7: names, ranges, functions, and the scopes in
//! which each matters.

use std::ops::RangeInclusive;

/// Functions that make one value of two (RFC 7143 §6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// The first value of the list that the responder accepts.
    List,
    /// Yes if either says Yes.
    Or,
    /// Yes if both say Yes.
    And,
    /// The smaller number.
    Minimum,
    /// The larger number.
    Maximum,
    /// No negotiation: each side states its own value.
    Declared,
    /// Refusal of the key (RFC 7143 §13.25).
    Obsolete,
}

/// Largest value of the lengths: 2^24 - 1 bytes.
const MAX_LENGTH: u32 = 0x00ff_ffff;

macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident = $name:literal, $function:ident, $range:expr;)*) => {
        /// Operational key of a negotiation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Key {
            $($(#[$doc])* $key,)*
        }

        impl Key {
            /// All keys, in the order in which an initiator offers them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$key),*];

            /// Returns the name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$key => $name,)* }
            }

            /// Returns the key with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Some(match name { $($name => Self::$key,)* _ => return None })
            }

            pub(super) const fn function(self) -> Function {
                match self { $(Self::$key => Function::$function,)* }
            }

            /// Returns the allowed numbers, or an empty range for keys that are no numbers.
            pub const fn range(self) -> RangeInclusive<u32> {
                match self { $(Self::$key => $range,)* }
            }
        }
    };
}

/// Range of a key that is not a number.
#[allow(clippy::reversed_empty_ranges)]
const NONE: RangeInclusive<u32> = 1..=0;

keys! {
    /// HeaderDigest (§13.1).
    HeaderDigest = "HeaderDigest", List, NONE;
    /// DataDigest (§13.1).
    DataDigest = "DataDigest", List, NONE;
    /// MaxRecvDataSegmentLength (§13.12).
    MaxRecvDataSegmentLength = "MaxRecvDataSegmentLength", Declared, 512..=MAX_LENGTH;
    /// ErrorRecoveryLevel (§13.20).
    ErrorRecoveryLevel = "ErrorRecoveryLevel", Minimum, 0..=2;
    /// InitialR2T (§13.10).
    InitialR2T = "InitialR2T", Or, NONE;
    /// ImmediateData (§13.11).
    ImmediateData = "ImmediateData", And, NONE;
    /// MaxBurstLength (§13.13).
    MaxBurstLength = "MaxBurstLength", Minimum, 512..=MAX_LENGTH;
    /// FirstBurstLength (§13.14).
    FirstBurstLength = "FirstBurstLength", Minimum, 512..=MAX_LENGTH;
    /// MaxConnections (§13.2).
    MaxConnections = "MaxConnections", Minimum, 1..=65_535;
    /// MaxOutstandingR2T (§13.17).
    MaxOutstandingR2T = "MaxOutstandingR2T", Minimum, 1..=65_535;
    /// DataPDUInOrder (§13.18).
    DataPduInOrder = "DataPDUInOrder", Or, NONE;
    /// DataSequenceInOrder (§13.19).
    DataSequenceInOrder = "DataSequenceInOrder", Or, NONE;
    /// DefaultTime2Wait (§13.15), seconds.
    DefaultTime2Wait = "DefaultTime2Wait", Maximum, 0..=3600;
    /// DefaultTime2Retain (§13.16), seconds.
    DefaultTime2Retain = "DefaultTime2Retain", Minimum, 0..=3600;
    /// TaskReporting (§13.23).
    TaskReporting = "TaskReporting", List, NONE;
    /// iSCSIProtocolLevel (RFC 7144 §7.1.1).
    ProtocolLevel = "iSCSIProtocolLevel", Minimum, 0..=31;
    /// IFMarker (§13.25).
    IFMarker = "IFMarker", Obsolete, NONE;
    /// OFMarker (§13.25).
    OFMarker = "OFMarker", Obsolete, NONE;
    /// IFMarkInt (§13.25).
    IFMarkInt = "IFMarkInt", Obsolete, NONE;
    /// OFMarkInt (§13.25).
    OFMarkInt = "OFMarkInt", Obsolete, NONE;
}

impl Key {
    /// Reports whether each side states the key for itself, without negotiation.
    pub const fn is_declarative(self) -> bool {
        matches!(self.function(), Function::Declared)
    }

    /// Reports whether this is a marker key of RFC 3720 (RFC 7143 §13.25).
    pub const fn is_obsolete(self) -> bool {
        matches!(self.function(), Function::Obsolete)
    }

    /// Reports whether the key has scope "CO": it is negotiated on each connection.
    pub const fn is_connection_wide(self) -> bool {
        matches!(
            self,
            Self::HeaderDigest | Self::DataDigest | Self::MaxRecvDataSegmentLength
        )
    }

    /// Reports whether the key is not "irrelevant when SessionType=Discovery".
    pub const fn is_relevant_in_discovery(self) -> bool {
        self.is_connection_wide()
            || matches!(
                self,
                Self::ErrorRecoveryLevel | Self::DefaultTime2Wait | Self::DefaultTime2Retain
            )
    }
}

/// Set of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeySet(u32);

impl KeySet {
    /// Adds a key.
    pub const fn insert(&mut self, key: Key) {
        self.0 |= 1 << key as u8;
    }

    /// Removes a key. Returns whether it was there.
    pub const fn remove(&mut self, key: Key) -> bool {
        let was = self.contains(key);
        self.0 &= !(1 << key as u8);
        was
    }

    /// Reports whether the key is in the set.
    pub const fn contains(self, key: Key) -> bool {
        self.0 & (1 << key as u8) != 0
    }

    /// Reports whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
