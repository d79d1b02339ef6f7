//! Descriptions of a unit's hindrances, from the device server and from the storage beneath the
//! unit.

use scsi::Hindrance as Found;
use scsi::alua::AccessState;

use super::unit::Unit;
use block::{BlockError, Condition};
use model::config::AluaState;
use model::data_plane::UnitStatus;
use model::hindrance::{AluaChoice, Clearing, Hindrance, HindranceKind, Stops};
use model::{Error, ErrorKind};

/// Returns all states that stop or refuse I/O of a served unit.
pub fn hindrances(unit: &Unit, status: &UnitStatus, condition: &Condition) -> Vec<Hindrance> {
    let mut all = Vec::new();
    if let Some(fault) = &status.fault {
        let suspension = condition.suspension.as_ref();
        let stops_reads = suspension.is_none_or(|it| it.stops_reads);
        all.push(broken(fault, status.remedy.as_deref(), stops_reads));
    }
    let found = unit.logical.hindrances().into_iter();
    all.extend(found.map(|found| in_words(unit, &found)));
    if let Some(reason) = &condition.lost_writes {
        all.push(lost_writes(unit, reason));
    }
    let usage = condition.usage.as_ref();
    if usage.is_ok_and(|usage| unit.is_short_of_space(usage)) {
        all.push(full(unit));
    }
    all
}

/// Returns the hindrance of a unit that cannot be served as it should.
pub fn broken(fault: &str, remedy: Option<&str>, stops_reads: bool) -> Hindrance {
    let stops = match stops_reads {
        true => Stops::Everything,
        false => Stops::Writes,
    };
    Hindrance {
        end: remedy.map(str::to_owned),
        ..by_nobody(HindranceKind::Fault, stops, fault.to_owned())
    }
}

fn by_nobody(kind: HindranceKind, stops: Stops, finding: String) -> Hindrance {
    Hindrance {
        kind,
        stops,
        by: None,
        binds_only: None,
        target_port_group: None,
        finding,
        end: None,
    }
}

fn lost_writes(unit: &Unit, reason: &str) -> Hindrance {
    let kind = HindranceKind::LostWrites;
    let finding =
        format!("acknowledged writes may be lost, so flushes and durable writes fail: {reason}");
    Hindrance {
        end: Some(format!("sandstone lu clear {} {}", unit.name, kind.word())),
        ..by_nobody(kind, Stops::Writes, finding)
    }
}

fn full(unit: &Unit) -> Hindrance {
    let anywhere = || "free space on its backend".to_owned();
    let end = unit.device.space_remedy().unwrap_or_else(anywhere);
    let finding = "no space is left: writes that need new space fail";
    Hindrance {
        end: Some(end),
        ..by_nobody(HindranceKind::Full, Stops::Writes, finding.into())
    }
}

/// Describes a hindrance that the device server found.
pub fn in_words(unit: &Unit, found: &Found) -> Hindrance {
    let (by, binds_only, target_port_group) = match found {
        Found::Stopped { by } => (Some(by.clone()), None, None),
        Found::SoftwareWriteProtected { by } | Found::Reserved { by, .. } => {
            (by.clone(), None, None)
        }
        Found::PersistentlyReserved(reservations) => {
            let holder = reservations.holder_name();
            (holder.map(str::to_owned), None, None)
        }
        Found::AccessState {
            group, chosen_by, ..
        } => (chosen_by.clone(), chosen_by.clone(), Some(*group)),
        Found::Offline
        | Found::Away
        | Found::Sanitizing { .. }
        | Found::SanitizeFailed { .. }
        | Found::ReadOnly
        | Found::ReadOnlyBeneath
        | Found::ThresholdReached => (None, None, None),
    };
    Hindrance {
        kind: kind(found),
        stops: stops(found),
        by,
        binds_only,
        target_port_group,
        finding: finding(unit, found),
        end: what_ends(unit, found),
    }
}

fn stops(found: &Found) -> Stops {
    match found {
        Found::PersistentlyReserved(reservations) if reservations.admits_readers() => Stops::Writes,
        Found::AccessState { state, .. } if state.is_active() => Stops::Nothing,
        Found::Offline
        | Found::Away
        | Found::Sanitizing { .. }
        | Found::Stopped { .. }
        | Found::SanitizeFailed { .. }
        | Found::Reserved { .. }
        | Found::PersistentlyReserved(_)
        | Found::AccessState { .. } => Stops::Everything,
        Found::ReadOnly | Found::ReadOnlyBeneath | Found::SoftwareWriteProtected { .. } => {
            Stops::Writes
        }
        Found::ThresholdReached => Stops::Nothing,
    }
}

fn finding(unit: &Unit, found: &Found) -> String {
    let somebody = |by: &Option<String>| by.clone().unwrap_or_else(|| "an initiator".into());
    match found {
        Found::Offline => "it is offline".into(),
        Found::Away => "its backend is away".into(),
        Found::Sanitizing { progress } => {
            let percent = u32::from(*progress) * 100 / 65_536;
            format!("SANITIZE is under way ({percent} %), and cannot be stopped")
        }
        Found::Stopped { by } => format!("{by} stopped it (START STOP UNIT)"),
        Found::SanitizeFailed { .. } => {
            "SANITIZE failed, or was interrupted by a restart: the contents of its blocks are unknown"
                .into()
        }
        Found::ReadOnly => "it is read-only".into(),
        Found::ReadOnlyBeneath => "its backend takes no writes".into(),
        Found::SoftwareWriteProtected { by } => {
            format!("{} write protected it (SWP, MODE SELECT)", somebody(by))
        }
        Found::Reserved { by, .. } => {
            let by = somebody(by);
            format!("{by} reserved it for one session (RESERVE of SPC-2)")
        }
        Found::PersistentlyReserved(reservations) => reservations.describe().unwrap_or_default(),
        Found::AccessState {
            group,
            state,
            chosen_by,
        } => {
            let word = alua_state(*state).as_str();
            let so = if state.is_active() {
                ""
            } else {
                ": no I/O through it"
            };
            let others = alua_state(unit.logical.access().groups().state(*group)).as_str();
            match chosen_by {
                None => format!("the administrator set target port group {group} {word}{so}"),
                Some(by) => format!(
                    "{by} set target port group {group} {word} for itself (explicit ALUA){so}; for all other \
                     initiators it is {others}"
                ),
            }
        }
        Found::ThresholdReached => {
            "its space has reached the soft threshold, and initiators were notified".into()
        }
    }
}

/// Returns the command or step that ends the hindrance. `None` means that only time ends it.
fn what_ends(unit: &Unit, found: &Found) -> Option<String> {
    let (name, kind) = (&unit.name, kind(found));
    match found {
        Found::Offline => Some(format!("sandstone lu online {name}")),
        Found::ReadOnly => Some(format!("sandstone lu modify {name} --read-only no")),
        Found::ReadOnlyBeneath => unit.device.read_only_remedy(),
        Found::ThresholdReached => Some(unit.device.space_remedy().unwrap_or_else(|| {
            format!("free space on its backend, or: sandstone lu modify {name} --threshold PERCENT")
        })),
        Found::AccessState {
            group,
            chosen_by: None,
            ..
        } => Some(format!(
            "sandstone target alua-state {group} active-optimized"
        )),
        Found::Away
        | Found::Sanitizing { .. }
        | Found::Stopped { .. }
        | Found::SanitizeFailed { .. }
        | Found::SoftwareWriteProtected { .. }
        | Found::Reserved { .. }
        | Found::PersistentlyReserved(_)
        | Found::AccessState { .. } => {
            let word = kind.word();
            let cleared = kind.clearing();
            cleared.map(|_| format!("sandstone lu clear {name} {word}"))
        }
    }
}

fn kind(found: &Found) -> HindranceKind {
    match found {
        Found::Offline => HindranceKind::Offline,
        Found::Away => HindranceKind::Fault,
        Found::Sanitizing { .. } => HindranceKind::Sanitize,
        Found::Stopped { .. } => HindranceKind::Stopped,
        Found::SanitizeFailed { .. } => HindranceKind::SanitizeFailed,
        Found::ReadOnly => HindranceKind::ReadOnly,
        Found::ReadOnlyBeneath => HindranceKind::ReadOnlyBeneath,
        Found::SoftwareWriteProtected { .. } => HindranceKind::WriteProtect,
        Found::Reserved { .. } => HindranceKind::Reservation,
        Found::PersistentlyReserved(_) => HindranceKind::PersistentReservation,
        Found::AccessState {
            chosen_by: None, ..
        } => HindranceKind::Alua,
        Found::AccessState { .. } => HindranceKind::AluaChoice,
        Found::ThresholdReached => HindranceKind::Threshold,
    }
}

/// Returns the ALUA states that initiators chose for themselves on a unit.
pub fn alua_choices(unit: &Unit) -> Vec<AluaChoice> {
    let choices = unit.logical.access().choices().into_iter();
    let choices = choices.map(|choice| AluaChoice {
        unit: unit.name.clone(),
        initiator: choice.initiator,
        target_port_group: choice.group,
        administrator: alua_state(choice.under),
        chosen: alua_state(choice.state),
    });
    choices.collect()
}

/// Ends states that stop I/O of a unit, and stores the result. The call may block.
///
/// # Errors
/// The state cannot end now, or it has ended but the result could not be stored.
pub fn clear(unit: &Unit, what: Clearing) -> Result<Vec<Hindrance>, Error> {
    let ended: Vec<_> = match what {
        Clearing::Imposed(imposed) => {
            let ended = unit.logical.end(imposed);
            ended.iter().map(|found| in_words(unit, found)).collect()
        }
        Clearing::LostWrites => acknowledge_lost_writes(unit)?,
    };
    for hindrance in &ended {
        tracing::info!(
            unit = unit.name,
            what = hindrance.told(),
            "the administrator ended a state that stopped I/O"
        );
    }
    // The state is stored even if nothing was found, because an earlier attempt to store it may
    // have failed.
    match unit.try_to_store_state() {
        Ok(()) => Ok(ended),
        Err(error) => Err(not_stored(unit, &error)),
    }
}

fn acknowledge_lost_writes(unit: &Unit) -> Result<Vec<Hindrance>, Error> {
    let Some(lost) = unit.device.lost_writes() else {
        return Ok(Vec::new());
    };
    if unit.device.acknowledge_lost_writes() {
        return Ok(vec![lost_writes(unit, &lost)]);
    }
    let name = &unit.name;
    Err(Error::new(
        ErrorKind::Refused,
        format!(
            "lu {name}: a flush is under way, and must first report the loss to the initiators that wait for \
             it"
        ),
        "repeat the command in a moment",
    ))
}

/// Ends the ALUA states that initiators chose on a unit for a target port group, and stores the
/// result. The call may block.
///
/// # Errors
/// The states have ended, but the result could not be stored.
pub fn end_alua_choices(unit: &Unit, group: u16) -> Result<(), Error> {
    if unit.logical.end_access_choices(Some(group)).is_empty() {
        return Ok(());
    }
    unit.try_to_store_state()
        .map_err(|error| not_stored(unit, &error))
}

fn not_stored(unit: &Unit, error: &BlockError) -> Error {
    let message = format!(
        "lu {}: the state has ended, but this could not be stored ({error}): after a restart it may return",
        unit.name
    );
    let next = "check the state folder (sandstone status names it), then repeat the command";
    Error::new(ErrorKind::Storage, message, next).not_changed("the stored state was not changed")
}

fn alua_state(state: AccessState) -> AluaState {
    match state {
        AccessState::ActiveOptimized => AluaState::ActiveOptimized,
        AccessState::ActiveNonOptimized => AluaState::ActiveNonOptimized,
        AccessState::Standby => AluaState::Standby,
        AccessState::Unavailable => AluaState::Unavailable,
        AccessState::Transitioning => AluaState::Transitioning,
    }
}
