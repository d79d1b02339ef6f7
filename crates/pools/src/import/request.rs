//! Opening of pools by their labels: pools that a user imports, and pools that this daemon had.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use store::engine::{Back, Examined, LeafLabels, OpenError, OpenErrorKind, PoolConfig, examine};

use super::found::{FoundPools, find_labels, leaves, missing_log, several, unaccounted};
use super::multihost;
use super::opening::Remedy;
use super::remembered::{Remembered, Stranger, accept_strangers, remembered, require_newest};
use super::rewind;
use super::twins::{self, CopyOfOpen};
use crate::devices::disks::Disks;
use crate::devices::known::KnownPool;
use crate::devices::system::{Key, key};
use crate::fence::PoolFence;
use crate::opener_turn::Turn;
use crate::pool_thread::PoolThread;
use crate::registry::{OpenPool, Pools};
use crate::setup::{Begin, Place, Setup};
use crate::stream::forget_interrupted;
use block::BlockDevice;
use model::device_name::is_remote;
use model::pool::found::FoundPool;
use model::pool::import::ImportPool;
use model::pool::rewind::{Reach, RewindView};
use model::{Error, ErrorKind};

/// Devices of a pool that could be opened.
struct Had {
    guid: u64,
    examined: Examined,
    /// Guid, path and device of each leaf.
    found: Vec<(u64, PathBuf, Arc<dyn BlockDevice>)>,
    /// Fence that keeps other hosts from the devices.
    fence: Option<PoolFence>,
    /// Reasons why other devices could not be opened.
    troubles: Vec<String>,
    /// Strange devices at the places of leaves.
    strangers: BTreeMap<u64, Stranger>,
    /// Whether nothing may be written to the devices.
    is_read_only: bool,
}

impl Had {
    fn leaves(&self) -> Vec<(u64, Arc<dyn BlockDevice>)> {
        let found = self.found.iter();
        found
            .map(|(leaf, _, device)| (*leaf, Arc::clone(device)))
            .collect()
    }
}

impl Pools {
    /// Returns the pools that could be imported, and the devices with unusable labels.
    pub fn importable(&self, paths: &[PathBuf]) -> Vec<FoundPool> {
        self.find_labels(paths).describe()
    }

    /// Imports a pool, or reports what the import would give up. Returns the pool that was found,
    /// with its present name.
    ///
    /// # Errors
    /// The pool is not found, is another host's, or cannot be opened.
    pub fn import(&self, request: &ImportPool) -> Result<FoundPool, Error> {
        let mut turn = Turn::of(&self.turns);
        let found = self.find_labels(&request.paths);
        let wanted = request.pool.as_deref().unwrap_or_default();
        let (mut pool, guid) = choose(&found, wanted, self.known_number(wanted).as_deref())?;
        let (all, paths) = (&pool.devices, &request.paths);
        twins::refuse(&pool.name, &pool.twins, all, paths, "import")?;
        if let Some(new) = &request.new_name {
            if request.read_only {
                return Err(Error::invalid(
                    "a pool that is imported read-only keeps its name: the labels are not written",
                    "omit the new name or -o readonly=on",
                ));
            }
            pool.name.clone_from(new);
        }
        self.check_name_of(&pool.name, &pool.guid, &request.paths)?;
        let check = |examined: &Examined| {
            if !request.force {
                refuse_old(examined)?;
            }
            self.doubts(examined, request).map(drop)
        };
        let disks = &self.options.disks;
        let terms = Terms {
            how: request,
            remedy: IMPORT_AGAIN,
        };
        let mut devices = self.had(disks, guid, &pool.devices, terms, check, &mut turn)?;
        // Other imports had their turn while this one waited, but none could have the devices.
        self.check_name_of(&pool.name, &pool.guid, &request.paths)?;
        pool.notes = self.doubts(&devices.examined, request)?;
        if let Some(new) = &request.new_name {
            // The labels hold the new name once the pool is open.
            devices.examined.config.name.clone_from(new);
            devices.examined.is_config_new = true;
        }
        let mut back = None;
        if request.rewind > Reach::None {
            let leaves = devices.leaves();
            let (reach, checkpoint) = (request.rewind, request.checkpoint);
            let (steps, view) = rewind::plan(&devices.examined, &leaves, reach, checkpoint)?;
            let is_done = !request.dry_run;
            pool.rewind = Some(RewindView { is_done, ..view });
            if request.dry_run {
                return Ok(pool);
            }
            back = steps;
        }
        let taken: Vec<PathBuf> = devices
            .found
            .iter()
            .map(|(_, path, _)| path.clone())
            .collect();
        let _reserved = self.reserve(taken.iter().map(PathBuf::as_path))?;
        self.open_on(devices, back, None, None)?;
        self.save()?;
        taken
            .iter()
            .try_for_each(|path| self.lent().take_back(path))?;
        Ok(pool)
    }

    /// Opens a pool that this daemon had: until the daemon ended, or, with a host that let it go,
    /// until it stopped.
    pub(crate) fn open_known<'a>(
        &'a self,
        known: &KnownPool,
        into: Option<&OpenPool>,
        turn: &mut Turn<'a>,
    ) -> Result<(), Error> {
        let guid = u64::from_str_radix(&known.guid, 16).map_err(|_| {
            Error::invalid(
                format!("{} is not a pool's number", known.guid),
                "import it again",
            )
        })?;
        let disks = self.options.disks.at_once();
        let Remembered { there, strangers } = remembered(&disks, known, guid);
        let how = ImportPool {
            read_only: known.is_read_only,
            ..ImportPool::default()
        };
        let next = accept_strangers(known, &strangers);
        let mut told: Vec<String> = strangers.values().map(Stranger::told).collect();
        let is_nothing_there = there.is_empty();
        let check = |examined: &Examined| {
            require_account(examined, known)?;
            require_newest(examined, known)
        };
        let terms = Terms {
            how: &how,
            remedy: &awaited(known),
        };
        let devices = self.had(&disks, guid, &there, terms, check, turn);
        let opened = devices.and_then(|mut devices| {
            if turn.has_waited() && !self.is_absent(known) {
                return Err(Error::not_found(
                    format!("pool {} was forgotten meanwhile", known.name),
                    "import it again, if it is needed",
                ));
            }
            devices.strangers = strangers;
            self.open_on(devices, None, Some(known), into)
        });
        opened.map_err(|mut error| {
            // Strangers alone are the whole reason if nothing else is there.
            if told.is_empty() || !is_nothing_there {
                told.insert(0, error.message);
            }
            error.message = told.join("; ");
            error.next = next.unwrap_or(error.next);
            error
        })?;
        // The pool is open, whether the list of pools can be written now or later.
        self.keep();
        Ok(())
    }

    /// Refuses devices that belong to a pool which is known here and not open. With force, it only
    /// returns the doubts.
    fn doubts(&self, examined: &Examined, request: &ImportPool) -> Result<Vec<String>, Error> {
        let guid = format!("{:016x}", examined.config.guid);
        let mut absent = self.absent().into_iter().map(|absent| absent.known);
        let doubt = absent.find(|known| known.guid == guid);
        match doubt.map(|known| require_newest(examined, &known)) {
            Some(Err(error)) if request.force => {
                tracing::warn!(%error, "an older state of a pool is imported");
                Ok(vec![error.message])
            }
            Some(Err(error)) => Err(error),
            Some(Ok(())) | None => Ok(Vec::new()),
        }
    }

    /// Opens the available devices of a pool and reads their labels. On request, it omits
    /// missing log vdevs, and takes disks that units had.
    fn had<'a>(
        &'a self,
        disks: &Disks,
        guid: u64,
        paths: &[PathBuf],
        Terms { how, remedy }: Terms<'_>,
        check: impl Fn(&Examined) -> Result<(), Error>,
        turn: &mut Turn<'a>,
    ) -> Result<Had, Error> {
        let mut opened = Vec::new();
        let mut troubles = Vec::new();
        for (path, result) in open_all(disks, paths) {
            let may_use = match how.force {
                true => Ok(()),
                false => self.lent().refuse(&path),
            };
            match result.and_then(|opened| may_use.map(|()| opened)) {
                Ok((device, labels)) => opened.push((path, device, labels)),
                Err(error) => {
                    let path = path.display();
                    tracing::warn!(%path, %error, "a device of a pool cannot be used");
                    troubles.push(error.message);
                }
            }
        }
        let labels: Vec<LeafLabels> = opened.iter().map(|(_, _, labels)| labels.clone()).collect();
        let examined = examine(&labels, Some(guid));
        let mut examined = examined.map_err(|error| unusable(&error, &troubles, remedy))?;
        self.check_owner(&examined.config, how.force)?;
        check(&examined)?;
        if !how.without_log {
            require_logs(&examined, paths)?;
        }
        let is_read_only = how.read_only || how.dry_run;
        let fence = turn.meanwhile(&self.turns, || {
            self.prove_alone(guid, &mut opened, &mut examined, is_read_only, how.force)
        })?;
        self.refuse_at_the_end()?;
        if how.without_log {
            for log in examined.drop_missing_logs() {
                let leaves = log.leaves;
                tracing::warn!(?leaves, "a pool is opened without a missing log vdev");
            }
        }
        if how.force || how.read_only {
            examined.go_without_needed();
        }
        if how.read_only {
            examined.only_read();
        }
        require_logs(&examined, paths)?;
        let leaves = examined.leaves.clone();
        let found = opened.into_iter().zip(leaves);
        let found = found.filter_map(|((path, device, _), leaf)| Some((leaf?, path, device)));
        Ok(Had {
            guid,
            found: found.collect(),
            examined,
            fence,
            troubles,
            strangers: BTreeMap::new(),
            is_read_only: how.read_only,
        })
    }

    /// Opens a pool on the available devices, in a host that let it go or in a new one. All other
    /// devices are missing. The pool decides whether too many are missing.
    fn open_on(
        &self,
        devices: Had,
        back: Option<Back>,
        known: Option<&KnownPool>,
        into: Option<&OpenPool>,
    ) -> Result<(), Error> {
        let leaves = devices.leaves();
        let Had {
            guid,
            examined,
            found,
            fence,
            mut troubles,
            strangers,
            is_read_only,
        } = devices;
        let name = examined.config.name.clone();
        if into.is_none() && self.all().iter().any(|(open, _)| *open == name) {
            return Err(Error::exists(
                format!("pool {name} cannot be opened: another pool of that name is open"),
                format!(
                    "import it under another name: `sandstone pool import {guid:016x} NEWNAME`"
                ),
            ));
        }
        let used = found.iter().map(|(_, path, _)| path);
        let is_protected = multihost::reason(&examined.config, used).is_some();
        let places = places(&examined.config, &found, known, &strangers);
        let missing = missing(&examined.config, &places, &found);
        let setup = Setup {
            begin: Begin::Import {
                examined: Box::new(examined),
                back,
            },
            devices: leaves,
            places,
            cache: match into {
                Some(pool) => Arc::clone(pool.host.cache()),
                None => self.cache_for_one_more(),
            },
            host: self.host_id(),
            is_read_only,
            protection: None,
            is_protected,
            fence,
            io_uring: self.options.io_uring,
            disks: self.options.disks.clone(),
            events: self.options.events.clone(),
        };
        let opened = match into {
            Some(pool) => pool.host.reopen(setup).map(|()| None),
            None => PoolThread::start(&name, setup).map(|host| Some(OpenPool::new(host, guid))),
        };
        let new = opened.map_err(|error| {
            let mut reasons = vec![error.reason];
            let next = match (error.remedy, missing.is_empty()) {
                (Remedy::Rewind, true) => Remedy::going_back(&name),
                (Remedy::Rewind, false) => format!(
                    "attach the missing devices, then import the pool again; if they are gone for good, \
                     `sandstone pool import -F -n -d PATH {name}` tells which changes going back would \
                     discard"
                ),
                (Remedy::Newer, _) => Remedy::newer(&name),
                (Remedy::ReadOnly, true) => format!(
                    "`sandstone pool import -o readonly=on -d PATH {name}` serves all readable data, and \
                     changes nothing"
                ),
                (Remedy::Program, _) => format!(
                    "import it with the version of sandstone that wrote it, or a newer one; if that version \
                     reports the same error, {}",
                    Remedy::going_back(&name)
                ),
                (Remedy::OtherHost, _) => format!(
                    "decide which host shall have the pool, and import it there again: `sandstone pool \
                     import -d PATH {name}`; -f also opens it if a host that is gone for good has left \
                     reservations on its devices"
                ),
                (Remedy::Devices | Remedy::ReadOnly, _) => {
                    format!("attach the missing devices, then use `sandstone pool import -d PATH {name}`")
                }
            };
            if !missing.is_empty() {
                reasons.push(format!("missing: {}", missing.join(", ")));
            }
            reasons.append(&mut troubles);
            Error::new(
                ErrorKind::Refused,
                format!("pool {name} cannot be opened: {}", reasons.join("; ")),
                next,
            )
        })?;
        if let Some(pool) = new.as_ref().or(into) {
            forget_interrupted(pool);
        }
        if let Some(pool) = new {
            self.add(pool);
        }
        Ok(())
    }

    /// Refuses a pool that another host may have open.
    pub(crate) fn check_owner(&self, config: &PoolConfig, force: bool) -> Result<(), Error> {
        let installation = |host: &str| host.rsplit('/').next().map(str::to_owned);
        let is_ours = installation(&config.host) == installation(&self.host_id());
        if config.is_exported || is_ours || force {
            return Ok(());
        }
        let machine = config.host.split('/').next().unwrap_or_default();
        let open = self.all().into_iter();
        if let Some((name, _)) = open.into_iter().find(|(_, pool)| pool.guid == config.guid) {
            return Err(Error::new(
                ErrorKind::InUse,
                format!("{machine} ({}) opened pool {name} meanwhile", config.host),
                format!(
                    "export it there and use `sandstone pool clear {name}` again; to leave the pool to that \
                     host, use `sandstone pool export {name}`: this host only forgets it. If that machine is \
                     gone for good, export the pool here, and then import it: `sandstone pool import -f \
                     {name}`"
                ),
            ));
        }
        Err(Error::new(
            ErrorKind::InUse,
            format!(
                "pool {} was last in use by {machine} and was not exported there",
                config.name
            ),
            "export it there; if that machine is gone for good, import it with -f: \
             two hosts that write to one pool destroy it",
        ))
    }

    /// Refuses the name of another open or known pool. The other pool would be forgotten, and units
    /// that serve volumes of one pool would serve those of the other.
    fn check_name_of(&self, name: &str, guid: &str, paths: &[PathBuf]) -> Result<(), Error> {
        let absent = self.absent().into_iter().map(|absent| absent.known);
        let Some(known) = absent.into_iter().find(|known| known.name == name) else {
            return self.check_name(name);
        };
        if known.guid == guid {
            return Ok(());
        }
        let from: Vec<String> = paths
            .iter()
            .map(|path| format!("-d {} ", path.display()))
            .collect();
        Err(Error::exists(
            format!(
                "another pool {name}, with the number {}, is known here and is missing; the pool that was \
                 found has the number {guid}",
                known.guid
            ),
            format!(
                "import the found pool under another name: `sandstone pool import {}{guid} NEWNAME`; or, if \
                 the other pool is gone for good, forget it first: `sandstone pool export {name}`",
                from.concat()
            ),
        ))
    }

    /// Returns the number of the pool of this name that this daemon had and that is not open.
    fn known_number(&self, name: &str) -> Option<String> {
        let mut absent = self.absent().into_iter().map(|absent| absent.known);
        Some(absent.find(|known| known.name == name)?.guid)
    }

    /// Finds all pools on the files, devices and folders in `paths`, except open pools.
    pub(crate) fn find_labels(&self, paths: &[PathBuf]) -> FoundPools {
        let mut found = find_labels(&self.options.disks, paths);
        for (name, pool) in self.all() {
            let Some(on) = found.pools.remove(&pool.guid) else {
                continue;
            };
            let places = pool.host.places().into_values();
            let used: Vec<Option<Key>> = places.map(|place| key(&place.path)).collect();
            let others = on.iter().filter(|found| !used.contains(&key(&found.path)));
            let copies = others.filter_map(|found| CopyOfOpen::of(&name, found));
            found.copies.extend(copies);
            found.open.push((name, pool.guid));
        }
        found
    }
}

/// Returns the pool that a name or number means. If a name fits several pools, it means the one of
/// this daemon, whose number is `known`.
fn choose(
    found: &FoundPools,
    wanted: &str,
    known: Option<&str>,
) -> Result<(FoundPool, u64), Error> {
    let mut fitting = found.named(wanted);
    let is_known = |(pool, _): &(FoundPool, u64)| Some(pool.guid.as_str()) == known;
    if fitting.iter().any(is_known) {
        fitting.retain(is_known);
    }
    if fitting.len() > 1 {
        return Err(several(&fitting));
    }
    let is_meant =
        |(name, guid): &&(String, u64)| name == wanted || format!("{guid:016x}") == wanted;
    fitting.pop().ok_or_else(|| match found.open.iter().find(is_meant) {
        Some((name, _)) => Error::exists(
            format!("pool {name} is open already{}", found.told_unusable()),
            format!(
                "`sandstone pool status {name}` shows it; `sandstone pool export {name}` closes it"
            ),
        ),
        None => Error::not_found(
            format!("no pool {wanted} was found{}", found.told_unusable()),
            "name the files, devices or folders to search with -d; `sandstone pool import` lists the \
             pools that it finds",
        ),
    })
}

/// Terms on which the devices of a pool are used.
#[derive(Clone, Copy)]
struct Terms<'a> {
    how: &'a ImportPool,
    /// Step to try if the devices make no pool, and their labels do not suggest another.
    remedy: &'a str,
}

/// Remedy for a pool that a user imports. A pool that this daemon had gets that of [`awaited`].
const IMPORT_AGAIN: &str = "check that its devices are attached and not used elsewhere, and that their paths are right, \
     then import it again, as in `sandstone pool import -d PATH NAME`; -f also uses disks that logical \
     units had, as they are";

/// Returns the remedy for a pool that this daemon had: the daemon waits for the devices, and opens
/// the pool by itself.
fn awaited(known: &KnownPool) -> String {
    let name = &known.name;
    format!(
        "attach its devices, and check that nothing else uses them: the pool then opens by itself. \
         `sandstone pool disks` shows what is attached. If the devices are gone for good, `sandstone pool \
         export {name}` forgets the pool"
    )
}

/// Words why labels make no pool. If the reason suggests no step to try, `remedy` is the step.
fn unusable(error: &OpenError, troubles: &[String], remedy: &str) -> Error {
    // If no label could be read, the devices' troubles are the reason.
    let is_unread = error.kind == OpenErrorKind::NoPool && !troubles.is_empty();
    let own = (!is_unread).then(|| error.to_string());
    let reasons: Vec<String> = own.into_iter().chain(troubles.iter().cloned()).collect();
    let next = match error.kind {
        OpenErrorKind::Twins => "name exactly one of them with -d",
        OpenErrorKind::Reguid => {
            "`sandstone pool reguid` with the same devices and name as before completes the change"
        }
        OpenErrorKind::Parted => {
            "decide which device to keep, and import the pool with it alone, as in `sandstone pool import -f \
             -d PATH NAME`; `sandstone pool replace -f NAME OTHER` then discards the other one"
        }
        _ => remedy,
    };
    Error::new(ErrorKind::Refused, reasons.join("; "), next)
}

/// Opened device with its labels, or the failure.
pub(crate) type Opened = Result<(Arc<dyn BlockDevice>, LeafLabels), Error>;

/// Opens all devices at once. Devices that do not answer delay the caller no longer than one of
/// them would.
pub(crate) fn open_all(disks: &Disks, paths: &[PathBuf]) -> Vec<(PathBuf, Opened)> {
    std::thread::scope(|scope| {
        let opening: Vec<_> = paths
            .iter()
            .map(|path| (path, scope.spawn(|| disks.open_with_labels(path))))
            .collect();
        opening
            .into_iter()
            .map(|(path, thread)| {
                let opened = thread.join().unwrap_or_else(|_| {
                    let message = format!("{} could not be opened", path.display());
                    Err(Error::new(
                        ErrorKind::Unavailable,
                        message,
                        "see the daemon's log",
                    ))
                });
                (path.clone(), opened)
            })
            .collect()
    })
}

/// Refuses a pool that may have gone on without these devices, on another machine's disk alone,
/// after their last use. Two machines seldom return at one moment, and the first may be the one
/// that was left behind.
fn require_account(examined: &Examined, known: &KnownPool) -> Result<(), Error> {
    let config = &examined.config;
    let was_at = |guid: &u64| {
        let number = format!("{guid:016x}");
        let known = known.devices.iter().find(|on| on.guid == number);
        let path = known.map(|on| on.path.clone());
        path.or_else(|| config.paths.get(guid).map(PathBuf::from))
    };
    let away = examined.unaccounted.iter().filter_map(was_at);
    let away: Vec<String> = away
        .filter(|path| is_remote(path))
        .map(|path| path.display().to_string())
        .collect();
    if away.is_empty() {
        return Ok(());
    }
    let (name, away) = (&config.name, away.join(", "));
    Err(Error::new(
        ErrorKind::Unavailable,
        format!(
            "pool {name} waits for {away}: if the pool was used there later than on the present devices, its \
             newest changes are only there"
        ),
        format!(
            "it opens automatically when sessions to that machine show its state (see `sandstone initiator \
             session list` if they fail); `sandstone pool import -f {name}` opens the pool without that \
             disk, and then the two parts can never be joined again"
        ),
    ))
}

/// Refuses a part of a pool that may be old.
fn refuse_old(examined: &Examined) -> Result<(), Error> {
    let away = unaccounted(examined);
    if away.is_empty() {
        return Ok(());
    }
    let (name, away) = (&examined.config.name, away.join(", "));
    Err(Error::new(
        ErrorKind::Refused,
        format!(
            "pool {name} may have newer changes than these devices: {away} may have been used later. If the \
             pool is opened without {away}, these changes are lost, and the two parts can never be joined \
             again"
        ),
        format!(
            "attach the missing device, or name it with -d, and import the pool with it; if it is lost for \
             good, or not needed, use `sandstone pool import -f {name}`, with the same -d"
        ),
    ))
}

/// Refuses a pool whose log may be elsewhere.
fn require_logs(examined: &Examined, paths: &[PathBuf]) -> Result<(), Error> {
    let Some(reason) = missing_log(examined) else {
        return Ok(());
    };
    let name = &examined.config.name;
    // Folder of the pool's other devices, for a command that the user can copy.
    let local = paths.iter().find(|path| !is_remote(path));
    let at = local.and_then(|path| path.parent());
    let at = at.map_or_else(|| "PATH".to_owned(), |folder| folder.display().to_string());
    Err(Error::new(
        ErrorKind::Refused,
        format!("pool {name} cannot be opened: {reason}"),
        format!(
            "attach the log device, then use `sandstone pool import -d {at} {name}`; if it is lost for good, \
             `sandstone pool import -m -d {at} {name}` opens the pool without it"
        ),
    ))
}

/// Returns the places of leaves and spares, or for missing ones their last places.
fn places(
    config: &PoolConfig,
    found: &[(u64, PathBuf, Arc<dyn BlockDevice>)],
    known: Option<&KnownPool>,
    strangers: &BTreeMap<u64, Stranger>,
) -> BTreeMap<u64, Place> {
    let beside = config.spares.iter().chain(&config.caches);
    let beside = beside.map(|leaf| leaf.guid);
    let known = known.map(|known| &known.devices[..]).unwrap_or_default();
    let known = |guid: u64| {
        let number = format!("{guid:016x}");
        known.iter().find(|on| on.guid == number)
    };
    let was = |guid: u64| {
        let path = known(guid).map(|on| on.path.clone());
        path.or_else(|| config.paths.get(&guid).map(PathBuf::from))
    };
    let place = |guid: u64| {
        let found = found.iter().find(|(leaf, _, _)| *leaf == guid);
        let found = found.map(|(_, path, _)| path.clone());
        let targets = known(guid).map(|on| on.targets.clone()).unwrap_or_default();
        if let Some(path) = found {
            return Some(Place {
                targets,
                ..Place::at(path)
            });
        }
        let trouble = strangers.get(&guid).map(Stranger::told);
        Some(Place {
            path: was(guid)?,
            trouble: Some(trouble.unwrap_or_else(|| "cannot open".to_owned())),
            targets,
            missing_at: Some(config.generation),
            identity: known(guid).and_then(|on| on.identity.clone()),
        })
    };
    let all = leaves(config).chain(beside);
    all.filter_map(|guid| Some((guid, place(guid)?))).collect()
}

/// Returns the names of leaves that were not found.
fn missing(
    config: &PoolConfig,
    places: &BTreeMap<u64, Place>,
    found: &[(u64, PathBuf, Arc<dyn BlockDevice>)],
) -> Vec<String> {
    let is_found = |guid: &u64| found.iter().any(|(leaf, _, _)| leaf == guid);
    let name = |guid: u64| match places.get(&guid) {
        Some(place) => place.path.display().to_string(),
        None => format!("{guid:016x}"),
    };
    let gone = leaves(config).filter(|guid| !is_found(guid));
    gone.map(name).collect()
}
