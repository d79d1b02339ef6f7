//! Turns the units that a session shows into devices and paths.

use super::super::adapter::AdapterError;
use super::super::commands::{CommandLimits, geometry};
use super::super::link::LinkError;
use super::super::nexus::PathOf;
use super::super::scan::{MAX_LUNS, Next, Scanned, Unit};
use super::{Device, Fabric, Purpose, Way};
use block::Geometry;
use multipath::{self, PathId, PathIdentity};
use scsi::application_client::cdb;
use scsi::application_client::probe::{Portrait, ProbeError};
use scsi::application_client::report_luns;
use scsi::application_client::target_port_groups::{self, TargetPortGroup};

/// Time for which a unit that is busy or becoming ready is left alone.
const SCAN_AGAIN_US: u64 = 100_000;
/// Pause before the first repeat of a scan that missed units. The pause doubles each time, up to
/// about a minute.
const FIRST_RESCAN_US: u64 = 1_000_000;
const MAX_RESCAN_DOUBLINGS: u32 = 6;
/// Most ways that a device may have had. Units that come and go for ever must not fill the memory.
const MAX_WAYS: usize = 4096;

impl Fabric {
    /// Sends the scan's next command.
    pub(super) fn send_scan(&mut self, at: usize) {
        let Some((lun, cdb, length)) = self.nexuses[at]
            .scan
            .as_ref()
            .map(super::super::scan::Scan::command)
        else {
            return;
        };
        self.ask(at, lun, Purpose::Scan, cdb, length);
    }

    /// Handles the answer to the scan's command.
    pub(super) fn scan_answered(
        &mut self,
        at: usize,
        status: u8,
        sense: &[u8],
        data: &[u8],
        now: u64,
    ) {
        let Some(scan) = &mut self.nexuses[at].scan else {
            return;
        };
        match scan.answer(status, sense, data) {
            Next::Go { later: false } => self.send_scan(at),
            Next::Go { later: true } => self.nexuses[at].scan_at_us = Some(now + SCAN_AGAIN_US),
            Next::Over(scanned) => {
                self.nexuses[at].scan = None;
                self.scanned(at, scanned, now);
            }
        }
    }

    fn scanned(&mut self, at: usize, scanned: Scanned, now: u64) {
        if std::mem::take(&mut self.nexuses[at].is_scan_stale) {
            return self.scan_again(at);
        }
        for (lun, error) in &scanned.refused {
            let lun = report_luns::number(*lun);
            tracing::info!(portal = %self.nexuses[at].portal, ?lun, %error, "a logical unit cannot be used");
        }
        let refusal = scanned.refused.last();
        self.nexuses[at].refusal = refusal.map(|(_, error)| error.to_string());
        if scanned.left_out > 0 {
            let (portal, more) = (self.nexuses[at].portal, scanned.left_out);
            tracing::warn!(%portal, more, "the target shows more LUNs than the initiator uses");
            self.nexuses[at].refusal = Some(format!(
                "{more} LUNs of the target are not used: the limit is {MAX_LUNS}"
            ));
        }
        // A unit that is busy or broken may come back as it was. A unit that does not exist is
        // gone.
        let refused = |lun: u64| {
            let mut refused = scanned.refused.iter();
            refused.any(|(other, error)| *other == lun && !matches!(error, ProbeError::NoDisk(_)))
        };
        // These are paths to units that are no longer shown, or are other units by now.
        let is_shown = |path: &PathOf| {
            let unit = scanned.units.iter().find(|unit| unit.lun == path.lun);
            let name = unit.map(|unit| self.device_name(at, unit));
            name.as_deref() == Some(self.devices[path.device].policy.name())
        };
        let paths = self.nexuses[at].paths.iter().copied();
        let is_gone = |path: &PathOf| !is_shown(path) && !refused(path.lun);
        let gone: Vec<PathOf> = paths.filter(is_gone).collect();
        if gone.iter().any(|path| self.carries_io(path)) {
            // Only the end of this session guarantees that its commands do not land any more.
            return self.lose(at, LinkError::Ended("a unit went away under I/O"));
        }
        for path in gone {
            tracing::warn!(
                lun = report_luns::number(path.lun),
                device = self.devices[path.device].policy.name(),
                "the LUN no longer belongs to this device"
            );
            self.remove_path(at, path, now);
        }
        let is_refused = |(_, error): &(u64, ProbeError)| !matches!(error, ProbeError::NoDisk(_));
        let mut is_whole = !scanned.units.is_empty() && !scanned.refused.iter().any(is_refused);
        for unit in scanned.units {
            is_whole &= self.unit_found(at, unit, now);
        }
        let nexus = &mut self.nexuses[at];
        nexus.has_scanned = true;
        if is_whole {
            nexus.vain_scans = 0;
        } else {
            let wait = FIRST_RESCAN_US << nexus.vain_scans.min(MAX_RESCAN_DOUBLINGS);
            nexus.vain_scans = nexus.vain_scans.saturating_add(1);
            nexus.scan_at_us = Some(now + wait);
        }
        self.count_change();
    }

    /// Handles a unit that has identified itself. Reports whether it is a path now.
    fn unit_found(&mut self, at: usize, unit: Unit, now: u64) -> bool {
        let name = self.device_name(at, &unit);
        let Unit { lun, portrait } = unit;
        let identity = self.identity(at, lun, &portrait);
        let device = self.device_named(&name, &portrait, &identity);
        if !self.fits(at, device, &portrait) {
            return false;
        }
        let paths = &mut self.nexuses[at].paths;
        let path = match paths
            .iter_mut()
            .find(|path| path.lun == lun && path.device == device)
        {
            Some(path) => path.path,
            None => {
                let Device {
                    policy,
                    paths: ways,
                    ..
                } = &mut self.devices[device];
                let way = Way {
                    nexus: at,
                    lun,
                    group: identity.target_port_group,
                };
                let mut numbers = (0..ways.len() as u32).map(PathId);
                let path = match numbers.find(|path| policy.is_free(*path)) {
                    Some(path) => {
                        ways[path.0 as usize] = way;
                        path
                    }
                    None if ways.len() >= MAX_WAYS => {
                        tracing::error!(
                            device = name,
                            "the paths of the device came and went too often; the new path is not used"
                        );
                        return false;
                    }
                    None => {
                        ways.push(way);
                        PathId(ways.len() as u32 - 1)
                    }
                };
                paths.push(PathOf {
                    lun,
                    device,
                    path,
                    is_known: false,
                    waits_to_take_part: false,
                });
                path
            }
        };
        self.take_portrait(device, &portrait);
        let policy = &mut self.devices[device].policy;
        policy.add_path(path, identity);
        for group in &portrait.groups {
            policy.alua_group(
                group.group,
                group.state,
                group.preferred,
                now,
                &mut self.actions,
            );
        }
        self.carry_out(device, now);
        let paths = &self.nexuses[at].paths;
        let mut known = paths.iter().filter(|of| of.is_known);
        let is_known = known.any(|of| of.device == device && of.path == path);
        let is_admitted = is_known || self.admit(device, path, now);
        let paths = &mut self.nexuses[at].paths;
        if let Some(of) = paths
            .iter_mut()
            .find(|of| of.device == device && of.path == path)
        {
            (of.is_known, of.waits_to_take_part) = (is_admitted, !is_admitted);
        }
        if is_admitted {
            let policy = &mut self.devices[device].policy;
            policy.path_up(path, now, &mut self.actions);
            self.carry_out(device, now);
        }
        true
    }

    /// Reports whether a unit can be the device whose name it bears. Two units may have been given
    /// one name, or the blocks of a unit may have changed. They must not be mixed: data of one
    /// would land on the other.
    fn fits(&mut self, at: usize, device: usize, portrait: &Portrait) -> bool {
        let known = self.devices[device].portrait.capacity;
        let (Some(known), Some(told)) = (known, portrait.capacity) else {
            return true;
        };
        let name = self.devices[device].policy.name();
        let portal = self.nexuses[at].portal;
        if known.block_length != told.block_length {
            let (known, told) = (known.block_length, told.block_length);
            tracing::error!(device = name, %portal, known, told, "the block length differs from that of the device; the path is not used");
            return false;
        }
        let through = self.nexuses.iter().enumerate().find_map(|(other, nexus)| {
            let mut paths = nexus.paths.iter();
            let path = paths.find(|path| path.device == device && path.is_known)?;
            (other != at && nexus.is_up()).then_some((other, path.lun))
        });
        let (true, Some((other, lun))) = (known.blocks != told.blocks, through) else {
            return true;
        };
        let (known, told) = (known.blocks, told.blocks);
        tracing::warn!(device = name, %portal, known, told, "another path reports a different size");
        // If the unit grew, the other paths report the new size as well when they are asked.
        self.ask_for_capacity(device, other, lun);
        false
    }

    /// Returns the name of a unit. A unit without an identifier cannot be recognised on another
    /// path.
    fn device_name(&self, at: usize, unit: &Unit) -> String {
        let name = unit.portrait.identification.name.clone();
        name.unwrap_or_else(|| format!("mpx.{}", self.runtime_name(at, unit.lun)))
    }

    fn runtime_name(&self, at: usize, lun: u64) -> String {
        let nexus = &self.nexuses[at];
        let target = self.targets[nexus.target].number;
        let number = report_luns::number(lun);
        let number = number.map_or_else(|| format!("{lun:x}"), |lun| lun.to_string());
        format!("vmhba64:C{}:T{target}:L{number}", nexus.channel)
    }

    fn carries_io(&self, path: &PathOf) -> bool {
        let mut on_paths = self.devices[path.device].policy.on_paths();
        on_paths.any(|(_, other, _)| other == path.path)
    }

    fn identity(&self, at: usize, lun: u64, portrait: &Portrait) -> PathIdentity {
        let nexus = &self.nexuses[at];
        let target = &self.targets[nexus.target];
        let group = nexus
            .logged_in
            .as_ref()
            .and_then(|login| login.portal_group_tag)
            .unwrap_or(0);
        PathIdentity {
            vendor: portrait.inquiry.vendor.clone(),
            model: portrait.inquiry.model.clone(),
            revision: portrait.inquiry.revision.clone(),
            tpgs: portrait.inquiry.tpgs,
            target_port_group: portrait.identification.target_port_group.unwrap_or(0),
            relative_port: portrait.identification.relative_target_port.unwrap_or(0),
            runtime_name: self.runtime_name(at, lun),
            initiator: format!("{}-{}", target.settings.session.initiator_name, nexus.isid),
            target: format!("{},t,{group}", target.settings.name),
        }
    }

    /// Returns the device of this name. A new device is claimed now.
    fn device_named(&mut self, name: &str, portrait: &Portrait, identity: &PathIdentity) -> usize {
        if let Some(device) = self
            .devices
            .iter()
            .position(|device| device.policy.name() == name)
        {
            return device;
        }
        let settings = self.device_settings.claim(name, identity);
        let block = portrait
            .capacity
            .map_or(512, |capacity| capacity.block_length);
        self.devices.push(Device {
            policy: multipath::Device::new(name, settings),
            identity: identity.clone(),
            requests: super::Requests::default(),
            portrait: portrait.clone(),
            geometry: geometry(portrait),
            limits: CommandLimits::new(portrait, block, self.device_settings.max_io(name)),
            paths: Vec::new(),
            has_lost_writes: false,
            patience_us: None,
            reservation: None,
        });
        self.devices.len() - 1
    }

    /// Takes a path's portrait of the unit. A path in standby does not know the size.
    fn take_portrait(&mut self, at: usize, portrait: &Portrait) {
        let device = &mut self.devices[at];
        let Some(capacity) = portrait.capacity else {
            return;
        };
        let block = device
            .portrait
            .capacity
            .map(|capacity| capacity.block_length);
        if block.is_some_and(|block| block != capacity.block_length) && device.geometry.is_some() {
            tracing::error!(
                device = device.policy.name(),
                "the block size changed; the old one is kept"
            );
            return;
        }
        device.portrait = portrait.clone();
        device.geometry = geometry(portrait);
        let max_io = self.device_settings.max_io(device.policy.name());
        device.limits = CommandLimits::new(portrait, capacity.block_length, max_io);
        self.count_change();
    }

    pub(super) fn remove_path(&mut self, at: usize, path: PathOf, now: u64) {
        self.nexuses[at].paths.retain(|other| *other != path);
        self.forget_path(path.device, path.path, now);
        self.devices[path.device]
            .policy
            .remove_path(path.path, now, &mut self.actions);
        self.carry_out(path.device, now);
    }

    /// Handles the answer with the states of target port groups.
    pub(super) fn groups_answered(&mut self, device: usize, data: &[u8], now: u64) {
        for TargetPortGroup {
            group,
            state,
            preferred,
            ..
        } in target_port_groups::parse(data)
        {
            let policy = &mut self.devices[device].policy;
            policy.alua_group(group, state, preferred, now, &mut self.actions);
        }
        self.carry_out(device, now);
    }

    /// Asks on a path whether the unit is there, and in which state.
    pub(super) fn probe_path(&mut self, device: usize, path: PathId) {
        let Some(&Way { nexus: at, lun, .. }) = self.devices[device].paths.get(path.0 as usize)
        else {
            return;
        };
        if self.devices[device].portrait.inquiry.tpgs != 0 {
            self.ask_for_groups(device, at, lun);
        }
        let purpose = Purpose::Ready { device, path };
        self.ask(at, lun, purpose, cdb::test_unit_ready(), 0);
    }

    /// Asks the target to make a path's group active.
    pub(super) fn activate_group(&mut self, device: usize, path: PathId) {
        let Some(&Way {
            nexus: at,
            lun,
            group,
        }) = self.devices[device].paths.get(path.0 as usize)
        else {
            return;
        };
        let list = target_port_groups::activate(group).to_vec();
        let cdb = cdb::set_target_port_groups(list.len() as u32);
        let purpose = Purpose::Activate { device, path };
        self.tell(at, lun, purpose, cdb, list);
    }

    /// Reads the changed data again.
    pub(super) fn refresh(&mut self, device: usize, path: PathId, what: multipath::Refresh) {
        let Some(&Way { nexus: at, lun, .. }) = self.devices[device].paths.get(path.0 as usize)
        else {
            return;
        };
        match what {
            multipath::Refresh::Capacity => self.ask_for_capacity(device, at, lun),
            multipath::Refresh::Luns | multipath::Refresh::Identity => self.doubt(at),
            multipath::Refresh::Reservation => self.doubt_reservation(device, path, self.now_us()),
        }
    }

    /// Handles the target's report that its units changed. No I/O goes down any path of the session
    /// before each unit has identified itself again.
    pub(super) fn doubt(&mut self, at: usize) {
        if !self.nexuses[at].is_up() {
            return;
        }
        self.drop_reserving(at);
        for path in &mut self.nexuses[at].paths {
            (path.is_known, path.waits_to_take_part) = (false, false);
        }
        let now = self.now_us();
        self.each_path(at, now, |policy, path, now, out| {
            policy.path_suspect(path, now, out);
        });
        if self.nexuses[at].scan.is_some() {
            self.nexuses[at].is_scan_stale = true;
        } else {
            self.scan_again(at);
        }
    }

    /// Scans a session anew, unless a scan is under way.
    pub(super) fn scan_again(&mut self, at: usize) {
        if self.nexuses[at].is_up() && self.is_wanted(at) && self.nexuses[at].scan.is_none() {
            let lun = self.targets[self.nexuses[at].target].settings.lun;
            self.nexuses[at].scan = Some(super::super::scan::Scan::new(lun));
            self.send_scan(at);
        }
    }

    /// Handles the answer with a new size.
    pub(super) fn capacity_answered(&mut self, device: usize, data: &[u8]) {
        if let Some(capacity) = scsi::application_client::shape::Capacity::parse_16(data) {
            let mut portrait = self.devices[device].portrait.clone();
            portrait.capacity = Some(capacity);
            self.take_portrait(device, &portrait);
        }
    }

    /// Returns the device behind a LUN of a target, or behind any LUN if none is named.
    pub(in super::super) fn device_of(&self, target: usize, lun: Option<u16>) -> Option<usize> {
        let nexuses = self.nexuses.iter().filter(|nexus| nexus.target == target);
        let lun = lun.map(report_luns::from_number);
        nexuses
            .flat_map(|nexus| &nexus.paths)
            .filter(|path| lun.is_none_or(|lun| path.lun == lun))
            .map(|path| path.device)
            .find(|device| self.devices[*device].geometry.is_some())
    }

    /// Checks whether a target shows the wanted unit.
    pub(in super::super) fn shows_a_unit(&self, target: usize) -> Result<(), AdapterError> {
        let settings = &self.targets[target].settings;
        match self.device_of(target, settings.lun) {
            Some(_) => Ok(()),
            None => {
                let mut nexuses = self.nexuses.iter().filter(|nexus| nexus.target == target);
                Err(AdapterError::NoUnit {
                    target: settings.name.clone(),
                    lun: settings.lun,
                    why: nexuses.find_map(|nexus| nexus.refusal.clone()),
                })
            }
        }
    }

    /// Returns the geometry of a device. A device whose size is not known has no room for any
    /// request.
    #[inline]
    pub(in super::super) fn geometry(&self, device: usize) -> Geometry {
        self.devices[device].geometry.unwrap_or(Geometry {
            len: 0,
            granularity: 512,
            physical: 512,
            alignment: 0,
            minimum: 512,
            optimal: 512,
            discard: 0,
            discard_alignment: 0,
            atomic_write: 0,
            thin: false,
            volatile_cache: true,
            rotation_rate: 0,
        })
    }
}
