//! Export that is offered: its size, its constraints, and the operations it supports.

use crate::wire::{DEFAULT_MAX_PAYLOAD, transmission_flag as flag};

/// Export of a server. All sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Canonical name. The export is the default export too, which has the empty name.
    pub name: String,
    /// A line for people.
    pub description: String,
    /// Capacity, a multiple of `minimum_block`.
    pub size: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Size of which every request is a multiple: a power of two up to 65,536.
    pub minimum_block: u32,
    /// Size of which requests should be a multiple: a power of two, at least `minimum_block` and
    /// 512.
    pub preferred_block: u32,
    /// Longest payload of a request or of a reply.
    pub maximum_payload: u32,
    /// Whether TRIM frees space.
    pub can_trim: bool,
    /// Whether writing zeros that may become holes is quicker than writing data.
    pub can_zero_fast: bool,
}

impl Export {
    /// Makes an export of this size and granularity that can be written.
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

    /// Reports whether a client that asks for `name` means this export.
    pub fn answers_to(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }

    /// Returns the transmission flags, without those that the handshake adds.
    pub(crate) fn flags(&self) -> u16 {
        // All connections reach one device, and its flush covers all that was written to it.
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
