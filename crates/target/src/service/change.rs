//! The change from one configuration in force to another: all steps that can fail come first, then
//! nothing fails.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use scsi::WriteThrough;

use super::Service;
use super::applied::Applied;
use super::layout::{group_layout, portals};
use super::retarget::moved;
use crate::connection::listener;
use crate::gateway;
use crate::made_files::MadeFiles;
use config::placement::{self, Placed};
use hint::Place;
use initiator::host_adapter::HostError;
use model::config::{Config, UnitSpec};
use model::data_plane::ApplyError;
use unit::retirement::Retirement;
use unit::state_file;
use unit::transition;
use unit::unit::Unit;

impl Service {
    /// Puts a configuration in force; all or nothing.
    pub(super) fn change_to(&self, config: Arc<Config>) -> Result<(), ApplyError> {
        let _changing = self.one_change_at_a_time();
        let current = self.lock().clone();
        gateway::refuse_to_cut(
            &self.host,
            &current.config,
            &config,
            &self.opener.backends.pools,
        )?;
        self.host.apply(&config.initiator).map_err(host_refused)?;
        let applied = self.apply_all_but_logins(&current, config);
        if applied.is_err() {
            // This configuration was in force before, so it is accepted.
            let _ = self.host.apply(&current.config.initiator);
        }
        applied
    }

    /// Puts everything but the logins of a configuration in force; all or nothing.
    fn apply_all_but_logins(
        &self,
        current: &Applied,
        config: Arc<Config>,
    ) -> Result<(), ApplyError> {
        let mut made = MadeFiles::default();
        let moved = moved(&current.config, &config);
        let units = self.open_units(current, &config, &moved, &mut made)?;
        let listeners = Self::bind_portals(current, &config)?;
        let emptied = Self::empty_caches(&current.config, &config, &units)?;
        let larger = self.make_room(&current.config, &config, &units, &moved, &mut made)?;
        let layout = group_layout(&config);
        // Deleted units are included: until they are out of the views, their commands come as ever.
        let served: Vec<Arc<Unit>> = current.units.values().cloned().collect();
        let gone: Vec<&UnitSpec> = deleted(&current.config, &config).collect();
        let replaced = current
            .config
            .units
            .iter()
            .filter(|old| moved.contains(&old.naa));
        let units_gone = gone.iter().copied().chain(replaced);
        let units_gone = units_gone.filter_map(|gone| current.units.get(&gone.name));
        let retirement = Retirement::begin(&*self.shared, units_gone.cloned().collect())?;
        // The new units store changes of their own only after this.
        retirement.hand_over(&units)?;
        transition::leave_service(&*self.shared, &self.opener.groups, &layout, &served)?;
        // From here on nothing can fail.
        made.keep();
        for (unit, blocks) in larger {
            unit.logical.resize(blocks);
        }
        Self::modify_units(&current.config, &config, &units);
        drop(emptied);
        transition::put_in_force(&self.opener.groups, layout, units.values());
        for gone in gone {
            if let Err(error) = state_file::remove(&self.opener.state_file(&gone.naa)) {
                tracing::warn!(unit = gone.name, %error, "the state of a deleted unit could not be removed");
            }
        }
        let faults = current
            .faults
            .iter()
            .filter(|(name, _)| !units.contains_key(*name) && config.unit(name).is_some());
        let faults = faults
            .map(|(name, error)| (name.clone(), error.clone()))
            .collect();
        let unbound = portals(&config)
            .into_iter()
            .filter(|address| !listeners.contains_key(address));
        let unbound = unbound
            .map(|address| {
                (
                    address,
                    current.unbound.get(&address).cloned().unwrap_or_default(),
                )
            })
            .collect();
        let applied = Applied {
            config,
            units,
            stand_ins: current.stand_ins.clone(),
            faults,
            listeners,
            unbound,
        };
        self.publish(applied);
        retirement.settle(&*self.shared);
        Ok(())
    }

    /// Returns the units of a new configuration: unchanged ones stay, others are opened.
    fn open_units(
        &self,
        old: &Applied,
        config: &Config,
        moved: &HashSet<String>,
        made: &mut MadeFiles,
    ) -> Result<BTreeMap<String, Arc<Unit>>, ApplyError> {
        let mut units = BTreeMap::new();
        let by_naa = old.config.units_by_naa();
        for after in placement::placed(config) {
            let spec = after.spec;
            let before = by_naa.get(spec.naa.as_str()).copied();
            let is_moved = moved.contains(&spec.naa);
            if let Some(unit) = self.open_or_keep(old, before, after, &units, is_moved, made)? {
                units.insert(spec.name.clone(), unit);
            }
        }
        Ok(units)
    }

    fn open_or_keep(
        &self,
        old: &Applied,
        before: Option<&UnitSpec>,
        after: Placed<'_>,
        opened: &BTreeMap<String, Arc<Unit>>,
        is_moved: bool,
        made: &mut MadeFiles,
    ) -> Result<Option<Arc<Unit>>, ApplyError> {
        let spec = after.spec;
        let others = || old.units.values().chain(opened.values());
        let Some(before) = before else {
            gateway::refuse_closed_pool(&self.opener.backends.pools, spec)?;
            made.add(self.opener.create(spec)?);
            let opened = self.opener.open(after, others(), gateway::PATIENCE);
            return opened.map(Some);
        };
        let Some(unit) = old.units.get(&before.name) else {
            if is_moved {
                return self.open_elsewhere(old, before, after, others()).map(Some);
            }
            // It could not be opened before. It may be whole again; if not, nothing is new.
            return Ok(self.opener.open(after, others(), Duration::ZERO).ok());
        };
        let same_shape = (
            before.block_size,
            before.physical_block_size,
            before.thin,
            &before.name,
        ) == (
            spec.block_size,
            spec.physical_block_size,
            spec.thin,
            &spec.name,
        );
        if same_shape && is_moved {
            return self.open_elsewhere(old, before, after, others()).map(Some);
        }
        if same_shape {
            return Ok(Some(unit.clone()));
        }
        Err(ApplyError {
            object: format!("lu {}", spec.name),
            message: "its block size, provisioning or name cannot change while it exists".into(),
            next: "create another logical unit with the new properties and copy the data".into(),
        })
    }

    /// Makes room beneath the units whose size was raised. They get their new number of blocks once
    /// nothing can fail any more.
    fn make_room(
        &self,
        old: &Config,
        config: &Config,
        units: &BTreeMap<String, Arc<Unit>>,
        moved: &HashSet<String>,
        made: &mut MadeFiles,
    ) -> Result<Vec<(Arc<Unit>, u64)>, ApplyError> {
        let mut larger = Vec::new();
        let old = old.units_by_name();
        for spec in &config.units {
            let name = spec.name.as_str();
            let (Some(before), Some(unit)) = (old.get(name), units.get(name)) else {
                continue;
            };
            let (Some(was), Some(wanted)) = (before.backend.size(), spec.backend.size()) else {
                continue;
            };
            // A unit that is pointed elsewhere has the size that it was opened with.
            if wanted == was || moved.contains(&spec.naa) {
                continue;
            }
            let failed = |message: String, next: &str| ApplyError {
                object: format!("lu {}", spec.name),
                message,
                next: next.into(),
            };
            if wanted < was {
                return Err(failed(
                    "it cannot be made smaller".into(),
                    "create a smaller logical unit and copy the data",
                ));
            }
            let backend = self.opener.backends.of(&spec.backend);
            let lengthened = backend.extend(wanted);
            let lengthened = lengthened.map_err(|error| failed(error.message(), error.next()))?;
            made.add_length(lengthened, unit.device.clone());
            let geometry = unit.device.refresh().map_err(|error| {
                failed(
                    error.to_string(),
                    "see the event log; the old size is still served",
                )
            })?;
            let blocks = geometry.len.min(wanted) / u64::from(spec.block_size);
            larger.push((Arc::clone(unit), blocks));
        }
        Ok(larger)
    }

    /// Empties the write caches that are to be switched off. As long as the result exists, no data
    /// goes into them.
    fn empty_caches(
        old: &Config,
        config: &Config,
        units: &BTreeMap<String, Arc<Unit>>,
    ) -> Result<Vec<WriteThrough>, ApplyError> {
        let old = old.units_by_name();
        let switched_off = config.units.iter().filter(|spec| {
            let before = old.get(spec.name.as_str());
            before.is_some_and(|before| before.write_cache && !spec.write_cache)
        });
        let units = switched_off.filter_map(|spec| units.get(&spec.name));
        let emptied = units.map(|unit| {
            unit.empty_cache().map_err(|error| ApplyError {
                object: format!("lu {}", unit.name),
                message: format!("its write cache could not be emptied: {error}"),
                next: "see the event log and the backend of the logical unit; the write cache is still on"
                    .into(),
            })
        });
        emptied.collect()
    }

    /// Applies the changes that a unit can take while it goes on.
    fn modify_units(old: &Config, config: &Config, units: &BTreeMap<String, Arc<Unit>>) {
        let old = old.units_by_name();
        for spec in &config.units {
            let name = spec.name.as_str();
            let (Some(before), Some(unit)) = (old.get(name), units.get(name)) else {
                continue;
            };
            if before.read_only != spec.read_only {
                unit.logical.set_read_only(spec.read_only);
            }
            if before.offline != spec.offline {
                unit.logical.set_offline(spec.offline);
            }
            if before.threshold_percent != spec.threshold_percent {
                unit.logical.set_soft_threshold(spec.threshold_percent);
            }
            if before.write_cache != spec.write_cache {
                unit.logical.set_write_cache(spec.write_cache);
                unit.store_state();
            }
        }
    }

    /// Returns the listening sockets of a new configuration: those that stay, and new ones.
    fn bind_portals(
        old: &Applied,
        config: &Config,
    ) -> Result<HashMap<SocketAddr, Arc<TcpListener>>, ApplyError> {
        let mut listeners = HashMap::new();
        for address in portals(config) {
            if let Some(listener) = old.listeners.get(&address) {
                listeners.insert(address, listener.clone());
                continue;
            }
            match listener::bind(address) {
                Ok(socket) => drop(listeners.insert(address, Arc::new(socket))),
                // It could not be bound before either, so this change is not refused for it.
                Err(_) if old.unbound.contains_key(&address) => {}
                Err(error) => {
                    return Err(ApplyError {
                        object: format!("portal {address}"),
                        message: format!("it cannot be bound: {error}"),
                        next: Place::Address(address).next(&error),
                    });
                }
            }
        }
        Ok(listeners)
    }
}

/// Returns the units of one configuration that are not in the next.
fn deleted<'a>(old: &'a Config, new: &'a Config) -> impl Iterator<Item = &'a UnitSpec> {
    let stay = new.units_by_naa();
    let units = old.units.iter();
    units.filter(move |old| !stay.contains_key(old.naa.as_str()))
}

pub(super) fn host_refused(error: HostError) -> ApplyError {
    ApplyError {
        object: match error.target.as_str() {
            "" => "the initiator".to_owned(),
            target => format!("login {target}"),
        },
        message: error.message,
        next: "check the portal's name, or write its address".into(),
    }
}
