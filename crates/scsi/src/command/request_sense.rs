//! REQUEST SENSE (SPC-4 6.39): pending unit attentions and lasting conditions, as parameter data.
//!
//! iSCSI delivers sense data with the status (autosense). So no sense data is ever kept for this
//! command.

use crate::Start;
use crate::cdb::Cdb;
use crate::command_descriptor::Request;
use crate::sense::{Sense, SenseFormat};

/// Reports the most important pending unit attention, and clears it. If there is none, it reports
/// why the unit is not ready, or else NO SENSE.
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    let sense = match request.nexus.take_unit_attention() {
        Some(ua) => ua.sense(),
        None => request.unit.check_ready().err().unwrap_or(Sense::none()),
    };
    report(request.cdb, &sense)
}

/// Builds sense data as parameter data, in descriptor format exactly if DESC is set.
pub(crate) fn report(cdb: Cdb<'_>, sense: &Sense) -> Result<Start, Sense> {
    let format = if cdb.bit(1, 0) {
        SenseFormat::Descriptor
    } else {
        SenseFormat::Fixed
    };
    Ok(Start::data(sense.encode(format), usize::from(cdb.u8(4))))
}
