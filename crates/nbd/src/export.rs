//! What is offered: the size of an export, its constraints and what can be done with it.

use crate::wire::{DEFAULT_MAX_PAYLOAD, transmission_flag as flag};

/// An export; all sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its canonical name. It is the default export too, which has the empty name.
    pub name: String,
    /// A line for people.
    pub description: String,
    /// Capacity, a multiple of `minimum_block`.
    pub size: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// Every request is a multiple of this: a power of two up to 65,536.
    pub minimum_block: u32,
    /// Requests should be a multiple of this: a power of two, at least `minimum_block` and 512.
    pub preferred_block: u32,
    /// Longest payload of a request or of a reply.
    pub maximum_payload: u32,
    /// TRIM frees something.
    pub can_trim: bool,
    /// Writing zeros that may become holes is quicker than writing.
    pub can_zero_fast: bool,
}

impl Export {
    /// An export of this size and granularity that can be written.
    pub fn new(size: u64, minimum_block: u32) -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            size,
            read_only: false,
            minimum_block,
            preferred_block: minimum_block.max(4096),
            maximum_payload: DEFAULT_MAX_PAYLOAD,
            can_trim: true,
            can_zero_fast: true,
        }
    }

    /// Whether a client that asks for `name` means this one.
    pub fn answers_to(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }

    /// The transmission flags, apart from what the handshake adds.
    pub(crate) fn flags(&self) -> u16 {
        // All connections reach one device, and its flush is a flush of all that was written to it.
        let mut flags = flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::CAN_MULTI_CONN
            | flag::SEND_CACHE;
        if self.read_only {
            return flags | flag::READ_ONLY;
        }
        flags |= flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
        if self.can_trim {
            flags |= flag::SEND_TRIM;
        }
        flags
    }
}
