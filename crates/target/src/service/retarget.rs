//! Units that a change points to other data: another one takes the place of each, with the same
//! identity and maps.
//!
//! # Order
//! 1. The new one is opened. Where that fails, or it is smaller than the disk that hosts know,
//!    nothing has changed.
//! 2. The stored state of the old one changes no more, and the new one takes it over
//!    (`crates/unit/src/retirement.rs`). The state that the new one loaded when it was opened may
//!    be older: an initiator that was fenced off since would be let in again.
//! 3. The new one takes its place in all views: commands of the old one are aborted, and each nexus
//!    is told that the unit was powered on (29/00), and that its INQUIRY data (3F/03) and capacity
//!    (2A/09) may be others.
//! 4. What devices still do for the old one is waited for: its volume may be destroyed next.
//!
//! Reservations without APTPL end, as with a loss of power.

use std::collections::HashSet;
use std::sync::Arc;

use super::Service;
use super::applied::Applied;
use crate::gateway;
use config::placement::{self, Placed};
use model::config::{Config, UnitSpec};
use model::data_plane::ApplyError;
use model::quantity::format_size;
use unit::unit::Unit;

/// Returns the designators of units that a change points to other data.
pub(super) fn moved(old: &Config, new: &Config) -> HashSet<String> {
    let moved = placement::moved(old, new).into_iter();
    moved.map(|unit| unit.naa.clone()).collect()
}

impl Service {
    /// Opens the new unit that takes the place of a unit, or of its stand-in.
    pub(super) fn open_elsewhere<'a>(
        &self,
        old: &Applied,
        before: &UnitSpec,
        after: Placed<'_>,
        others: impl Iterator<Item = &'a Arc<Unit>>,
    ) -> Result<Arc<Unit>, ApplyError> {
        let spec = after.spec;
        let failed = |message: String, next: String| ApplyError {
            object: format!("lu {}", spec.name),
            message,
            next,
        };
        if spec.backend.is_volatile() {
            return Err(failed(
                "new memory is empty: it holds no data for the logical unit".into(),
                "create another logical unit in memory".into(),
            ));
        }
        gateway::refuse_closed_pool(&self.opener.backends.pools, spec)?;
        let opened = self.opener.open(after, others, gateway::PATIENCE)?;
        let known = old.units.get(&before.name);
        let known = known.or(old.stand_ins.get(&before.name).map(|it| &it.unit));
        let known = known.map_or(0, |unit| unit.logical.blocks());
        let blocks = opened.logical.blocks();
        if blocks >= known {
            return Ok(opened);
        }
        let size = |blocks: u64| format_size(blocks * u64::from(spec.block_size));
        let next = match spec.backend.writable_volume() {
            Some(volume) => format!(
                "grow the volume first: sandstone volume set volsize={} {volume}",
                size(known)
            ),
            None => "choose a backend that is at least as large".into(),
        };
        let message = format!(
            "the new backend has {}, but hosts know the logical unit with {}: the rest of their data would \
             be cut off",
            size(blocks),
            size(known)
        );
        Err(failed(message, next))
    }
}
