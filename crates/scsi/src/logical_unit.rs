//! One logical unit: identity, capacity, mode pages, reservations, unit attentions, task set.
//!
//! Shared by all event loops as `Arc<LogicalUnit>`. The state that changes rarely is behind one
//! mutex; the state that every command asks is one atomic word (`gate`).

/// What an administrator decides about a unit; everything the initiator is told follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitConfig {
    /// NAA designator, 8 or 16 bytes (IEEE registered or registered extended; type 6 for ESXi).
    pub naa: Vec<u8>,
    /// T10 vendor identification, 8 printable characters after padding.
    pub vendor: String,
    /// Product identification, 16 characters after padding.
    pub product: String,
    /// Product revision level, 4 characters after padding.
    pub revision: String,
    /// Unit serial number (VPD 80h).
    pub serial: String,
    /// Logical block length in bytes: 512 or 4096.
    pub block_len: u32,
    /// log2(logical blocks per physical block) (READ CAPACITY(16)).
    pub physical_exponent: u8,
    /// Lowest aligned LBA (READ CAPACITY(16)).
    pub lowest_aligned: u16,
    /// Capacity in logical blocks.
    pub blocks: u64,
    /// Whether unmapped blocks exist (LBPME) and UNMAP is offered.
    pub thin: bool,
    /// UNMAP granularity in logical blocks (VPD B0h), at least 1.
    pub unmap_granularity: u32,
    /// Largest transfer in logical blocks (VPD B0h); longer ones are refused.
    pub max_transfer: u32,
    /// Optimal transfer in logical blocks (VPD B0h).
    pub optimal_transfer: u32,
    /// Largest atomic write in logical blocks that the backend really gives, 0 for none.
    pub max_atomic_write: u32,
    /// The default of WCE: acknowledge from volatile cache.
    pub write_cache: bool,
    /// Whether an initiator's MODE SELECT may change WCE.
    pub write_cache_changeable: bool,
    /// Write protected by the administrator.
    pub read_only: bool,
    /// Medium rotation rate for VPD B1h: 1 = solid state.
    pub rotation_rate: u16,
}

/// A logical unit.
#[derive(Debug)]
pub struct LogicalUnit {}
