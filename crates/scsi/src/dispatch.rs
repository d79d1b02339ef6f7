//! Entry of every command: the gates in the order of SAM-5 5.3.3, then the handler in the table.
//!
//! All that may forbid a command is kept as bits in two atomic words, one of the nexus and one of
//! the unit. So the common READ or WRITE costs two loads and a parse, under any number of
//! reservations. All that is rare or wrong goes the slow way through the table.

mod transfer;

use std::sync::Arc;

use crate::cdb::Cdb;
use crate::command::{report_luns, request_sense};
use crate::command_descriptor::{Request, UnitAttentionRule};
use crate::command_table::{self, TABLE};
use crate::itl_nexus::{FORBIDS_WRITES_ONLY, ItlNexus};
use crate::logical_unit::LogicalUnit;
use crate::sense::{Asc, Sense};
use crate::view::TargetView;
use crate::{Command, Response, Start, inquiry};

impl ItlNexus {
    /// Decides what to do with a command: all gates, then its CDB.
    #[inline]
    pub fn start(self: &Arc<Self>, command: &Command<'_>, view: &dyn TargetView) -> Start {
        let gate = self.gate();
        if gate & !FORBIDS_WRITES_ONLY == 0
            && let Some(start) = self.unit().foresee(command.cdb)
            && (gate == 0 || matches!(start, Start::Read { .. }))
        {
            return start.checked(command, self.unit());
        }
        self.start_slowly(command, view)
    }

    #[cold]
    #[inline(never)]
    fn start_slowly(self: &Arc<Self>, command: &Command<'_>, view: &dyn TargetView) -> Start {
        dispatch(self, command, view).checked(command, self.unit())
    }
}

/// Runs the gates and the handler.
fn dispatch(nexus: &Arc<ItlNexus>, command: &Command<'_>, view: &dyn TargetView) -> Start {
    let unit = nexus.unit();
    match dispatch_inner(nexus, unit, command, view) {
        Ok(start) => start,
        Err(Refusal::Sense(sense)) => Start::Respond(unit.check_condition(&sense)),
        Err(Refusal::Response(response)) => Start::Respond(response),
    }
}

/// Reasons why a command does not start.
enum Refusal {
    Sense(Sense),
    Response(Response),
}

impl From<Sense> for Refusal {
    fn from(sense: Sense) -> Self {
        Self::Sense(sense)
    }
}

fn dispatch_inner(
    nexus: &Arc<ItlNexus>,
    unit: &Arc<LogicalUnit>,
    command: &Command<'_>,
    view: &dyn TargetView,
) -> Result<Start, Refusal> {
    nexus.check_attached()?;
    let cdb = Cdb(command.cdb);
    let found = command_table::find(cdb, unit);
    let reports_attention =
        found.is_none_or(|found| found.gates.unit_attention == UnitAttentionRule::Report);
    if reports_attention && let Some(ua) = nexus.take_unit_attention_of_reset() {
        return Err(ua.sense().into());
    }
    let Some(found) = found else {
        return Err(match nexus.take_unit_attention() {
            Some(ua) => ua.sense().into(),
            None => command_table::refusal(cdb, unit).into(),
        });
    };
    let gates = found.gates;
    if !(gates.runs_whoever_reserved)(cdb)
        && nexus.conflicts(gates.access, gates.allowed_under_reserve6)
    {
        return Err(Refusal::Response(Response::reservation_conflict()));
    }
    if reports_attention && let Some(ua) = nexus.take_unit_attention() {
        return Err(ua.sense().into());
    }
    if command.cdb.len() < found.usage.len() {
        return Err(Sense::illegal(Asc::INVALID_FIELD_IN_CDB).into());
    }
    refuse_naca(cdb, found.usage.len())?;
    nexus.check_access_state(command.cdb)?;
    if gates.needs_ready || unit.stands_in() && !is_answered_by_stand_in(cdb) {
        unit.check_ready()?;
    }
    if gates.writes {
        nexus.check_writable()?;
    }
    Ok((found.handler)(&Request {
        nexus,
        unit,
        cdb,
        command,
        view,
        commands: TABLE,
    })?)
}

/// Reports whether a stand-in unit answers a command as the unit behind it would. Those commands
/// ask for identity, units and ports. The stand-in knows nothing else for sure.
fn is_answered_by_stand_in(cdb: Cdb<'_>) -> bool {
    match cdb.u8(0) {
        0x03 | 0x12 | 0xa0 => true,
        // REPORT TARGET PORT GROUPS
        0xa3 => cdb.u8(1) & 0x1f == 0x0a,
        _ => false,
    }
}

/// Refuses a CONTROL byte with NACA set, because NormACA is 0 in the INQUIRY data (SAM-5 5.2).
fn refuse_naca(cdb: Cdb<'_>, len: usize) -> Result<(), Sense> {
    let control = if cdb.u8(0) == 0x7f { 1 } else { len - 1 };
    cdb.refuse_bit(control, 2)
}

/// Answers a command to a LUN that is not mapped (SPC-4 6.6, 6.33, 6.39).
///
/// INQUIRY says that no unit is there, and REPORT LUNS lists the units there are. REQUEST SENSE and
/// all others say LOGICAL UNIT NOT SUPPORTED.
pub fn start_without_unit(command: &Command<'_>, view: &dyn TargetView) -> Start {
    let cdb = Cdb(command.cdb);
    let not_supported = Sense::illegal(Asc::LOGICAL_UNIT_NOT_SUPPORTED);
    let answer = match cdb.u8(0) {
        0x12 => inquiry::without_unit(cdb, view.identity()),
        0xa0 => report_luns::report(cdb, view),
        0x03 => request_sense::report(cdb, &not_supported),
        _ => Err(not_supported),
    };
    answer.unwrap_or_else(|sense| {
        Start::Respond(Response::check_condition(sense.encode(Default::default())))
    })
}
