//! Configuration of a logical unit: identity, capacity, and limits and abilities of its backend.
//!
//! Limits that contradict each other are narrowed once, when the unit is made. So no code that
//! reads them checks them again.

/// Decisions of an administrator about a unit. All that is reported to initiators follows from
/// them.
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
    /// LOWEST ALIGNED LOGICAL BLOCK ADDRESS (READ CAPACITY(16)): the place at which the first
    /// physical block begins.
    pub lowest_aligned: u16,
    /// Capacity in logical blocks.
    pub blocks: u64,
    /// Whether unmapped blocks exist (LBPME) and UNMAP is offered.
    pub thin: bool,
    /// UNMAP granularity in logical blocks (VPD B0h), at least 1.
    pub unmap_granularity: u32,
    /// UNMAP GRANULARITY ALIGNMENT (VPD B0h): the block at which the first unit of that granularity
    /// begins, or `None` if no block is known.
    pub unmap_alignment: Option<u32>,
    /// Largest transfer in logical blocks (VPD B0h). Longer ones are refused.
    pub max_transfer: u32,
    /// Optimal transfer in logical blocks (VPD B0h), 0 for not reported.
    pub optimal_transfer: u32,
    /// OPTIMAL TRANSFER LENGTH GRANULARITY in logical blocks (VPD B0h), at least a physical block.
    /// Shorter transfers may cost more than they carry.
    pub transfer_granularity: u16,
    /// Largest atomic write in logical blocks that the backend really gives, 0 for none.
    pub max_atomic_write: u32,
    /// Whether the backend overwrites in place, so that SANITIZE OVERWRITE destroys the stored
    /// data. If a write goes elsewhere (redirect on write, blocks allocated on demand), the old
    /// bytes survive it. SANITIZE is then not offered at all.
    pub sanitize: bool,
    /// Default of WCE: whether writes are acknowledged from volatile cache.
    pub write_cache: bool,
    /// Whether an initiator's MODE SELECT may change WCE.
    pub write_cache_changeable: bool,
    /// Whether the administrator write protects the unit.
    pub read_only: bool,
    /// MEDIUM ROTATION RATE (VPD B1h): 0 is not reported, 1 is a medium that does not rotate,
    /// others are rotations per minute.
    pub rotation_rate: u16,
}

impl UnitConfig {
    /// Returns the configuration with limits that hold together.
    ///
    /// The block length is one that the unit can serve. The bytes of a transfer fit in 31 bits. An
    /// optimal transfer and an atomic one are no longer, and an optimal one has whole granules.
    /// Each alignment lies within the granularity that it aligns.
    #[must_use]
    pub fn narrowed(mut self) -> Self {
        if self.block_len != 4096 {
            self.block_len = 512;
        }
        self.max_transfer = self.max_transfer.clamp(1, i32::MAX as u32 / self.block_len);
        self.max_atomic_write = self.max_atomic_write.min(self.max_transfer);
        self.unmap_granularity = self.unmap_granularity.max(1);
        // The fields have 31 and 14 bits, and a value that does not fit cannot be reported.
        self.unmap_alignment = self
            .unmap_alignment
            .map(|block| block % self.unmap_granularity)
            .filter(|block| *block <= i32::MAX as u32);
        self.physical_exponent = self.physical_exponent.min(15);
        let physical = 1 << self.physical_exponent;
        self.lowest_aligned %= physical;
        if self.lowest_aligned > 0x3fff {
            self.lowest_aligned = 0;
        }
        if u32::from(self.transfer_granularity) > self.max_transfer {
            self.transfer_granularity = physical;
        }
        self.transfer_granularity = self.transfer_granularity.max(physical);
        let granularity = u32::from(self.transfer_granularity);
        self.optimal_transfer = match self.optimal_transfer.min(self.max_transfer) {
            0 => 0,
            most if most > granularity => most - most % granularity,
            _ => granularity.min(self.max_transfer),
        };
        self
    }
}
