//! Typed values of properties, and zfs's words for them.

use std::fmt;

use super::error::{CatalogError, ErrorKind};
use super::property::{Native, Property};
use super::size::{parse_size, print_size};
use crate::format::{Algorithm, Compression};

/// Length of the longest value of a user property, in bytes.
pub const MAX_USER_VALUE: usize = 8191;

/// Compression of new blocks, as it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionChoice {
    /// No compression.
    Off,
    /// The compression that the program thinks best: LZ4.
    On,
    /// LZ4.
    Lz4,
    /// Zstandard, at this level (1 to 19) or at its usual one.
    Zstd(Option<u8>),
}

impl CompressionChoice {
    /// Returns the method with which a block is kept.
    pub fn method(self) -> Compression {
        match self {
            Self::Off => Compression::Off,
            Self::On | Self::Lz4 => Compression::Lz4,
            Self::Zstd(_) => Compression::Zstd,
        }
    }

    /// Returns the level for Zstandard; 3 if none was chosen.
    pub fn level(self) -> u8 {
        match self {
            Self::Zstd(Some(level)) => level,
            _ => 3,
        }
    }
}

/// Checksum of new blocks, as it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumChoice {
    /// No checksum.
    Off,
    /// The checksum that the program thinks best: XXH3.
    On,
    /// XXH3, 128 bits.
    Xxh3,
    /// The first 128 bits of BLAKE3.
    Blake3,
}

impl ChecksumChoice {
    /// Returns the algorithm of a block's checksum.
    pub fn algorithm(self) -> Algorithm {
        match self {
            Self::Off => Algorithm::Off,
            Self::On | Self::Xxh3 => Algorithm::Xxh3,
            Self::Blake3 => Algorithm::Blake3,
        }
    }
}

/// Policy of what a cache keeps of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePolicy {
    /// The cache keeps data and the trees above it.
    All,
    /// The cache keeps the trees only. Cache vdevs keep nothing then, since they keep no trees.
    Metadata,
    /// The cache keeps nothing.
    None,
}

/// Policy of when writes are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Writes are made durable when the client asks for it.
    Standard,
    /// Writes are made durable before they are acknowledged.
    Always,
    /// Writes are made durable at the next checkpoint, whatever the client asks. A power cut loses
    /// acknowledged writes.
    Disabled,
}

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A size in bytes.
    Size(u64),
    /// A reservation in bytes; `None` is `none`.
    Reservation(Option<u64>),
    /// A limit; `None` is `none`.
    Limit(Option<u64>),
    /// A number.
    Number(u64),
    /// `on` or `off`.
    Switch(bool),
    /// Value of `compression`.
    Compression(CompressionChoice),
    /// Value of `checksum`.
    Checksum(ChecksumChoice),
    /// Value of `copies`.
    Copies(u8),
    /// Value of `primarycache` and `secondarycache`.
    Cache(CachePolicy),
    /// Value of `sync`.
    Sync(SyncPolicy),
    /// Text in words.
    Text(String),
}

impl Value {
    /// Parses a property's value from an administrator or a disk. `auto` of `refreservation` is not
    /// known here, since it depends on the volume.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`], with the values that are allowed; [`ErrorKind::ReadOnly`] for a
    /// computed property.
    pub fn parse(property: &Property, text: &str) -> Result<Self, CatalogError> {
        let Property::Native(native) = property else {
            if text.len() > MAX_USER_VALUE {
                return Err(CatalogError::new(
                    ErrorKind::InvalidValue,
                    format!(
                        "the value of {property} has {} bytes, which is too long",
                        text.len()
                    ),
                    format!("use at most {MAX_USER_VALUE} bytes"),
                ));
            }
            return Ok(Self::Text(text.to_owned()));
        };
        Self::parse_native(*native, text).ok_or_else(|| {
            let values = native.info().values;
            if values.is_empty() {
                return CatalogError::new(
                    ErrorKind::ReadOnly,
                    format!("{property} is computed and cannot be set"),
                    "",
                );
            }
            CatalogError::new(
                ErrorKind::InvalidValue,
                format!("'{text}' is not a value of {property}"),
                format!("use one of {values}"),
            )
        })
    }

    fn parse_native(native: Native, text: &str) -> Option<Self> {
        Some(match native {
            Native::Volsize | Native::Volblocksize => Self::Size(parse_size(text).ok()?),
            Native::Refreservation => Self::Reservation(match text {
                "none" => None,
                _ => Some(parse_size(text).ok()?).filter(|bytes| *bytes > 0),
            }),
            Native::SnapshotLimit => Self::Limit(match text {
                "none" => None,
                _ => Some(parse_digits(text)?),
            }),
            Native::Readonly => Self::Switch(match text {
                "on" => true,
                "off" => false,
                _ => return None,
            }),
            Native::Compression => Self::Compression(parse_compression(text)?),
            Native::Checksum => Self::Checksum(match text {
                "off" => ChecksumChoice::Off,
                "on" => ChecksumChoice::On,
                "xxh3" => ChecksumChoice::Xxh3,
                "blake3" => ChecksumChoice::Blake3,
                _ => return None,
            }),
            Native::Copies => Self::Copies(match text {
                "1" => 1,
                "2" => 2,
                _ => return None,
            }),
            Native::Primarycache | Native::Secondarycache => Self::Cache(match text {
                "all" => CachePolicy::All,
                "metadata" => CachePolicy::Metadata,
                "none" => CachePolicy::None,
                _ => return None,
            }),
            Native::Sync => Self::Sync(match text {
                "standard" => SyncPolicy::Standard,
                "always" => SyncPolicy::Always,
                "disabled" => SyncPolicy::Disabled,
                _ => return None,
            }),
            _ => return None,
        })
    }

    /// Returns the value for people: sizes are rounded to a few characters, as zfs does without
    /// `-p`.
    pub fn print_rounded(&self) -> String {
        match self {
            Self::Size(bytes) | Self::Reservation(Some(bytes)) => print_size(*bytes),
            _ => self.to_string(),
        }
    }
}

fn parse_digits(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

fn parse_compression(text: &str) -> Option<CompressionChoice> {
    Some(match text {
        "off" => CompressionChoice::Off,
        "on" => CompressionChoice::On,
        "lz4" => CompressionChoice::Lz4,
        "zstd" => CompressionChoice::Zstd(None),
        _ => {
            let level = parse_digits(text.strip_prefix("zstd-")?)?;
            let level = u8::try_from(level)
                .ok()
                .filter(|level| (1..=19).contains(level))?;
            CompressionChoice::Zstd(Some(level))
        }
    })
}

/// Writes the exact value, in words that [`Value::parse`] reads back: sizes in bytes.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Size(number)
            | Self::Number(number)
            | Self::Reservation(Some(number))
            | Self::Limit(Some(number)) => return write!(f, "{number}"),
            Self::Compression(CompressionChoice::Zstd(Some(level))) => {
                return write!(f, "zstd-{level}");
            }
            Self::Copies(copies) => return write!(f, "{copies}"),
            Self::Text(text) => text,
            Self::Reservation(None) | Self::Limit(None) => "none",
            Self::Switch(true) => "on",
            Self::Switch(false) => "off",
            Self::Compression(CompressionChoice::Off) => "off",
            Self::Compression(CompressionChoice::On) => "on",
            Self::Compression(CompressionChoice::Lz4) => "lz4",
            Self::Compression(CompressionChoice::Zstd(None)) => "zstd",
            Self::Checksum(ChecksumChoice::Off) => "off",
            Self::Checksum(ChecksumChoice::On) => "on",
            Self::Checksum(ChecksumChoice::Xxh3) => "xxh3",
            Self::Checksum(ChecksumChoice::Blake3) => "blake3",
            Self::Cache(CachePolicy::All) => "all",
            Self::Cache(CachePolicy::Metadata) => "metadata",
            Self::Cache(CachePolicy::None) => "none",
            Self::Sync(SyncPolicy::Standard) => "standard",
            Self::Sync(SyncPolicy::Always) => "always",
            Self::Sync(SyncPolicy::Disabled) => "disabled",
        };
        f.write_str(word)
    }
}
