//! Configuration of the device server for a unit: it tells initiators the truth about the device.

use scsi::logical_unit::UnitConfig;
use scsi::view::Identity;

use block::Geometry;
use model::config::{BackendSpec, UnitSpec, default_physical_block_size};

/// Largest transfer of one command in bytes; told in VPD B0h.
const MAX_TRANSFER: u32 = 8 << 20;

/// Names by which every unit introduces itself to initiators, and a target without units.
pub const IDENTITY: Identity = Identity {
    vendor: "SNDSTONE",
    product: "VOLUME",
    revision: "0001",
};

/// The configuration of the device server for a unit on a device of this shape.
///
/// # Errors
/// The designator is none.
pub fn unit_config(spec: &UnitSpec, geometry: Geometry) -> Result<UnitConfig, String> {
    let block_len = spec.block_size;
    let naa = hex(&spec.naa).ok_or_else(|| format!("`{}` is not an NAA designator", spec.naa))?;
    let configured = match spec.backend {
        BackendSpec::Memory { size } | BackendSpec::File { size, .. } => size,
        BackendSpec::Device { .. } | BackendSpec::Iscsi { .. } | BackendSpec::Volume { .. } => {
            geometry.len
        }
    };
    let in_blocks = |bytes: u32| (bytes / block_len).max(1);
    // A place between two blocks cannot be told.
    let block_at = |bytes: u32| bytes.is_multiple_of(block_len).then(|| bytes / block_len);
    let physical = physical(spec, geometry);
    Ok(UnitConfig {
        naa,
        vendor: IDENTITY.vendor.into(),
        product: IDENTITY.product.into(),
        revision: IDENTITY.revision.into(),
        serial: spec.serial.clone(),
        block_len,
        physical_exponent: in_blocks(physical).trailing_zeros() as u8,
        lowest_aligned: block_at(geometry.alignment % physical)
            .and_then(|block| u16::try_from(block).ok())
            .unwrap_or(0),
        blocks: configured.min(geometry.len) / u64::from(block_len),
        thin: spec.thin && geometry.discard > 0,
        unmap_granularity: in_blocks(geometry.discard),
        unmap_alignment: block_at(geometry.discard_alignment),
        max_transfer: in_blocks(MAX_TRANSFER),
        optimal_transfer: in_blocks(geometry.optimal),
        // Writes of less cost reading, however small the physical blocks are that clients can bear
        // to hear of. What the field cannot tell leaves it at a physical block.
        transfer_granularity: u16::try_from(in_blocks(geometry.minimum)).unwrap_or(0),
        max_atomic_write: geometry.atomic_write / block_len,
        sanitize: overwrites_in_place(spec),
        write_cache: spec.write_cache,
        write_cache_changeable: true,
        read_only: spec.read_only,
        rotation_rate: geometry.rotation_rate,
    })
}

/// The physical block size that is told: the administrator's, but never less than a disk beneath
/// writes as a whole. Above 4 KiB, which ESXi and SQL Server do not bear, the administrator alone
/// decides; the granularity of transfers tells it anyway.
fn physical(spec: &UnitSpec, geometry: Geometry) -> u32 {
    let least = match spec.backend {
        BackendSpec::Device { .. } | BackendSpec::Iscsi { .. } => {
            geometry.physical.min(default_physical_block_size())
        }
        BackendSpec::Memory { .. } | BackendSpec::File { .. } | BackendSpec::Volume { .. } => 0,
    };
    spec.physical_block_size.max(least)
}

/// Whether a write lands where the old bytes were, so that SANITIZE destroys them. Memory is
/// redirected on write; a file with holes, or one whose blocks are given back, takes new ones.
fn overwrites_in_place(spec: &UnitSpec) -> bool {
    match spec.backend {
        BackendSpec::Device { .. } => true,
        BackendSpec::File { preallocate, .. } => preallocate && !spec.thin,
        // What another array does with it is not known; a pool never writes in place.
        BackendSpec::Memory { .. } | BackendSpec::Iscsi { .. } | BackendSpec::Volume { .. } => {
            false
        }
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a disk with 4 KiB sectors, the first of which begins at its eighth block. Its
    /// controller stripes by 64 KiB and frees by 1 MiB.
    fn disk() -> Geometry {
        Geometry {
            len: 1 << 30,
            granularity: 512,
            physical: 4096,
            alignment: 3584,
            minimum: 64 << 10,
            optimal: 256 << 10,
            discard: 1 << 20,
            discard_alignment: 3584,
            atomic_write: 0,
            thin: true,
            volatile_cache: true,
            rotation_rate: 0,
        }
    }

    fn device() -> BackendSpec {
        BackendSpec::Device {
            path: "/dev/sdx".into(),
        }
    }

    fn spec(backend: BackendSpec, block_size: u32, physical_block_size: u32) -> UnitSpec {
        UnitSpec {
            name: "lu".into(),
            naa: "6e000000000000010000000000000001".into(),
            serial: "1".into(),
            backend,
            block_size,
            physical_block_size,
            write_cache: false,
            read_only: false,
            thin: true,
            threshold_percent: None,
            offline: false,
        }
    }

    fn told(block_size: u32, geometry: Geometry) -> UnitConfig {
        let spec = spec(device(), block_size, 4096);
        unit_config(&spec, geometry).expect("a designator")
    }

    #[test]
    fn a_disk_is_told_in_blocks() {
        let config = told(512, disk());
        assert_eq!((config.physical_exponent, config.lowest_aligned), (3, 7));
        assert_eq!(config.transfer_granularity, 128);
        assert_eq!(config.optimal_transfer, 512);
        assert_eq!(config.unmap_granularity, 2048);
        assert_eq!(config.unmap_alignment, Some(7));
        assert_eq!(config.rotation_rate, 0);
        let solid = Geometry {
            rotation_rate: 1,
            ..disk()
        };
        assert_eq!(told(512, solid).rotation_rate, 1);
    }

    #[test]
    fn places_between_two_blocks_are_not_told() {
        let config = told(4096, disk());
        assert_eq!((config.physical_exponent, config.lowest_aligned), (0, 0));
        assert_eq!(
            (config.unmap_granularity, config.unmap_alignment),
            (256, None)
        );
    }

    #[test]
    fn no_disk_is_told_with_smaller_physical_blocks_than_it_has() {
        let remote = || BackendSpec::Iscsi {
            device: "naa.6e000000000000010000000000000002".into(),
        };
        let volume = BackendSpec::Volume {
            volume: "tank/vol".into(),
        };
        let exponent = |backend, administrators, physical| {
            let geometry = Geometry { physical, ..disk() };
            let config = unit_config(&spec(backend, 512, administrators), geometry);
            config.expect("a designator").physical_exponent
        };
        for backend in [device, remote] {
            assert_eq!(exponent(backend(), 512, 512), 0);
            assert_eq!(exponent(backend(), 512, 4096), 3);
            // What the administrator says above it counts, and above 4 KiB in both directions.
            assert_eq!(exponent(backend(), 65536, 4096), 7);
            assert_eq!(exponent(backend(), 4096, 16384), 3);
            assert_eq!(exponent(backend(), 16384, 16384), 5);
        }
        assert_eq!(exponent(volume, 512, 16384), 0);
    }
}
