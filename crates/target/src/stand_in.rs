//! Stand-ins for units that are configured and cannot be served now: their pool was exported or
//! does not open, or a disk or file is missing.
//!
//! All of these units may come back, so initiators must not hear that the unit is gone for good.
//! LOGICAL UNIT NOT SUPPORTED (05/25/00) is a permanent loss to ESXi, which then gives up the
//! datastore. A stand-in takes the unit's place, with its name, designators and LUNs. It answers
//! INQUIRY and REPORT LUNS. It answers all commands to the medium with 02/04/01 (LOGICAL UNIT IS IN
//! PROCESS OF BECOMING READY): hosts repeat them, or treat all paths as down. When the real unit is
//! served, each nexus is told that it was powered on (29/00). Each is also told that INQUIRY data
//! (3F/03) and capacity (2A/09) may have changed.

use std::sync::Arc;

use scsi::logical_unit::LogicalUnit;

use super::opening::Opener;
use super::service::Applied;
use block::backing::Backing;
use block::{
    BlockDevice, BlockError, BlockErrorKind, Geometry, Lane, Request, Submitted, Ticket, Usage,
};
use model::config::UnitSpec;
use unit::shape::unit_config;
use unit::state_file;
use unit::unit::Unit;

/// Unit that stands in for one of the configuration.
#[derive(Clone, Debug)]
pub(super) struct StandIn {
    /// Specification that it was made for.
    spec: UnitSpec,
    pub(super) unit: Arc<Unit>,
}

/// Device of a stand-in.
#[derive(Debug)]
struct Away(Geometry);

impl Away {
    fn error() -> BlockError {
        BlockError::new(
            BlockErrorKind::Away,
            "the backend of the logical unit is away",
        )
    }
}

impl BlockDevice for Away {
    fn geometry(&self) -> Geometry {
        self.0
    }

    fn submit(&self, _: Request, _: Ticket, _: &mut Lane) -> Submitted {
        Submitted::Ready(Err(Self::error()))
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        Err(Self::error())
    }
}

impl Opener {
    /// Adds stand-ins for all units of the configuration that are not served. Existing stand-ins
    /// are kept.
    pub(super) fn add_stand_ins(&self, applied: &mut Applied) {
        let mut before = std::mem::take(&mut applied.stand_ins);
        for spec in &applied.config.units {
            if applied.units.contains_key(&spec.name) {
                continue;
            }
            let same = before
                .remove(&spec.name)
                .filter(|before| before.spec == *spec);
            let stand_in = same.or_else(|| self.stand_in(spec, assumed(spec)));
            applied
                .stand_ins
                .extend(stand_in.map(|stand_in| (spec.name.clone(), stand_in)));
        }
    }

    /// Returns a stand-in for a unit whose device has, or had, this geometry. Returns `None` if the
    /// unit's designator is invalid.
    pub(super) fn stand_in(&self, spec: &UnitSpec, geometry: Geometry) -> Option<StandIn> {
        let capabilities = self.backends.of(&spec.backend).capabilities();
        let config = unit_config(spec, capabilities, geometry).ok()?;
        let logical = LogicalUnit::new(config, self.groups.clone());
        let state_file = self.state_file(&spec.naa);
        if let Ok(loaded) = state_file::load(&state_file)
            && let Some(image) = loaded.image
        {
            // If the image is invalid, the unit is not served before that is resolved.
            let _ = logical.restore(&image);
        }
        logical.set_offline(spec.offline);
        logical.stand_in();
        let unit = Unit::new(
            spec.name.clone(),
            logical,
            Arc::new(Away(geometry)),
            Backing::default(),
            state_file,
            Arc::clone(&self.loops),
        );
        Some(StandIn {
            spec: spec.clone(),
            unit: Arc::new(unit),
        })
    }
}

/// Returns the geometry of a device that was not seen yet, as far as the configuration tells it.
fn assumed(spec: &UnitSpec) -> Geometry {
    let physical = spec.physical_block_size;
    Geometry {
        len: spec.backend.size().unwrap_or(0),
        granularity: spec.block_size,
        physical,
        alignment: 0,
        minimum: physical,
        optimal: physical,
        discard: if spec.thin { physical } else { 0 },
        discard_alignment: 0,
        atomic_write: 0,
        thin: spec.thin,
        volatile_cache: spec.write_cache,
        rotation_rate: 0,
    }
}
