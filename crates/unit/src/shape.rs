//! Configuration of the device server for a unit: it tells initiators the truth about the device.

use scsi::logical_unit::UnitConfig;
use scsi::view::Identity;

use block::Geometry;
use model::backend::{Capabilities, Overwrites};
use model::config::{UnitSpec, default_physical_block_size};

/// Largest transfer of one command in bytes, as reported in VPD B0h.
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
pub fn unit_config(
    spec: &UnitSpec,
    backend: Capabilities,
    geometry: Geometry,
) -> Result<UnitConfig, String> {
    let block_len = spec.block_size;
    let naa = hex(&spec.naa).ok_or_else(|| format!("`{}` is not an NAA designator", spec.naa))?;
    let configured = spec.backend.size().unwrap_or(geometry.len);
    let in_blocks = |bytes: u32| (bytes / block_len).max(1);
    // A position between two blocks cannot be reported.
    let block_at = |bytes: u32| bytes.is_multiple_of(block_len).then(|| bytes / block_len);
    let physical = physical(spec, backend, geometry);
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
        // Smaller writes cost a read, however small the reported physical blocks are for the sake
        // of clients. If the field cannot hold the value, the granularity stays at a physical
        // block.
        transfer_granularity: u16::try_from(in_blocks(geometry.minimum)).unwrap_or(0),
        max_atomic_write: geometry.atomic_write / block_len,
        sanitize: is_overwritten(spec, backend.overwrites),
        write_cache: spec.write_cache,
        write_cache_changeable: true,
        read_only: spec.read_only,
        rotation_rate: geometry.rotation_rate,
    })
}

/// The physical block size that is told: the administrator's, but never less than a disk beneath
/// writes as a whole. Above 4 KiB, which ESXi and SQL Server do not bear, the administrator alone
/// decides; the granularity of transfers tells it anyway.
fn physical(spec: &UnitSpec, backend: Capabilities, geometry: Geometry) -> u32 {
    let least = match backend.has_physical_blocks {
        true => geometry.physical.min(default_physical_block_size()),
        false => 0,
    };
    spec.physical_block_size.max(least)
}

/// Reports whether every write lands where the old bytes were, so that SANITIZE destroys them.
/// Clients of a thin unit may give blocks back.
fn is_overwritten(spec: &UnitSpec, overwrites: Overwrites) -> bool {
    match overwrites {
        Overwrites::Always => true,
        Overwrites::UntilDiscarded => !spec.thin,
        Overwrites::Never => false,
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
    use model::config::BackendSpec;

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

    fn spec(block_size: u32, physical_block_size: u32) -> UnitSpec {
        UnitSpec {
            name: "lu".into(),
            naa: "6e000000000000010000000000000001".into(),
            serial: "1".into(),
            backend: BackendSpec::device("/dev/sdx"),
            block_size,
            physical_block_size,
            write_cache: false,
            read_only: false,
            thin: true,
            threshold_percent: None,
            offline: false,
        }
    }

    fn a_disk() -> Capabilities {
        Capabilities {
            has_physical_blocks: true,
            ..Capabilities::default()
        }
    }

    fn told(block_size: u32, geometry: Geometry) -> UnitConfig {
        unit_config(&spec(block_size, 4096), a_disk(), geometry).expect("a designator")
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
        let exponent = |backend, administrators, physical| {
            let geometry = Geometry { physical, ..disk() };
            let config = unit_config(&spec(512, administrators), backend, geometry);
            config.expect("a designator").physical_exponent
        };
        assert_eq!(exponent(a_disk(), 512, 512), 0);
        assert_eq!(exponent(a_disk(), 512, 4096), 3);
        // What the administrator says above it counts, and above 4 KiB in both directions.
        assert_eq!(exponent(a_disk(), 65536, 4096), 7);
        assert_eq!(exponent(a_disk(), 4096, 16384), 3);
        assert_eq!(exponent(a_disk(), 16384, 16384), 5);
        assert_eq!(exponent(Capabilities::default(), 512, 16384), 0);
    }

    #[test]
    fn sanitize_is_offered_where_it_destroys_the_old_bytes() {
        let offered = |overwrites, thin| {
            let spec = UnitSpec {
                thin,
                ..spec(512, 4096)
            };
            let backend = Capabilities {
                overwrites,
                ..Capabilities::default()
            };
            let config = unit_config(&spec, backend, disk());
            config.expect("a designator").sanitize
        };
        for (overwrites, thick, thin) in [
            (Overwrites::Never, false, false),
            (Overwrites::UntilDiscarded, true, false),
            (Overwrites::Always, true, true),
        ] {
            assert_eq!(offered(overwrites, false), thick, "{overwrites:?}");
            assert_eq!(offered(overwrites, true), thin, "{overwrites:?}");
        }
    }
}
