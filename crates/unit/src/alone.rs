//! Units around devices that no configuration names.

use std::path::PathBuf;
use std::sync::Arc;

use scsi::alua::TargetPortGroups;
use scsi::logical_unit::{LogicalUnit, UnitConfig};

use super::loops::Loops;
use super::shape::IDENTITY;
use super::unit::Unit;
use block::BlockDevice;
use block::backing::Backing;

/// Designator of a unit without configuration, which no initiator asks for: NAA 6, with all other
/// digits zero.
const NAA: [u8; 16] = [0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

impl Unit {
    /// Makes a unit around a device, with a write cache and without a stored state. The call may
    /// block.
    pub fn alone(name: String, device: Arc<dyn BlockDevice>) -> Arc<Self> {
        let geometry = device.geometry();
        // A unit can have two block lengths. For other granularities, whole blocks cover the
        // ranges.
        let block_len = if geometry.granularity == 4096 {
            4096
        } else {
            512
        };
        let config = UnitConfig {
            naa: NAA.to_vec(),
            vendor: IDENTITY.vendor.into(),
            product: IDENTITY.product.into(),
            revision: IDENTITY.revision.into(),
            serial: String::new(),
            block_len,
            physical_exponent: 0,
            lowest_aligned: 0,
            blocks: geometry.len / u64::from(block_len),
            thin: geometry.thin && geometry.discard > 0,
            unmap_granularity: 1,
            unmap_alignment: None,
            max_transfer: u32::MAX,
            optimal_transfer: 0,
            transfer_granularity: 1,
            max_atomic_write: 0,
            sanitize: false,
            write_cache: true,
            write_cache_changeable: false,
            read_only: false,
            rotation_rate: geometry.rotation_rate,
        };
        let logical = LogicalUnit::new(config, Arc::new(TargetPortGroups::default()));
        let unit = Self::new(
            name,
            logical,
            device,
            Backing::default(),
            PathBuf::new(),
            Loops::new(),
        );
        unit.follow_device();
        Arc::new(unit)
    }
}
