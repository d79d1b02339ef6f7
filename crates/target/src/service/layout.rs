//! The portals and target port groups of a configuration, in the form that listeners and the device
//! server take.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use scsi::alua::{AccessState, GroupLayout, SupportedStates, TargetPortGroup, TpgsMode};

use model::config::{AluaMode, AluaState, Config};

/// Returns every address that targets listen on, once.
pub(super) fn portals(config: &Config) -> Vec<SocketAddr> {
    let groups = config
        .targets
        .iter()
        .flat_map(|target| &target.portal_groups);
    let mut addresses: Vec<SocketAddr> = groups
        .flat_map(|group| group.portals.iter().copied())
        .collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Returns the target port groups of all targets.
pub(crate) fn group_layout(config: &Config) -> GroupLayout {
    let mut groups: BTreeMap<u16, TargetPortGroup> = BTreeMap::new();
    for spec in config
        .targets
        .iter()
        .flat_map(|target| &target.portal_groups)
    {
        let group = groups
            .entry(spec.target_port_group)
            .or_insert_with(|| TargetPortGroup {
                id: spec.target_port_group,
                preferred: false,
                supported: SupportedStates::ALL,
                state: access_state(spec.alua_state),
                ports: Vec::new(),
            });
        group.ports.push(spec.relative_port_id);
    }
    let mode = config
        .targets
        .iter()
        .map(|target| target.alua)
        .fold(AluaMode::None, widest);
    GroupLayout {
        mode: tpgs_mode(mode),
        groups: groups.into_values().collect(),
        // Nobody can tell how long an administrator stays between two states.
        implicit_transition_s: 0,
    }
}

/// Returns the wider of two modes. Targets share units, so the device offers all that any of its
/// targets offers.
fn widest(a: AluaMode, b: AluaMode) -> AluaMode {
    match (a, b) {
        (AluaMode::None, other) | (other, AluaMode::None) => other,
        (a, b) if a == b => a,
        _ => AluaMode::Both,
    }
}

fn tpgs_mode(mode: AluaMode) -> TpgsMode {
    match mode {
        AluaMode::None => TpgsMode::None,
        AluaMode::Implicit => TpgsMode::Implicit,
        AluaMode::Explicit => TpgsMode::Explicit,
        AluaMode::Both => TpgsMode::Both,
    }
}

fn access_state(state: AluaState) -> AccessState {
    match state {
        AluaState::ActiveOptimized => AccessState::ActiveOptimized,
        AluaState::ActiveNonOptimized => AccessState::ActiveNonOptimized,
        AluaState::Standby => AccessState::Standby,
        AluaState::Unavailable => AccessState::Unavailable,
        AluaState::Transitioning => AccessState::Transitioning,
    }
}
