//! Handlers of requests about benchmarks. They decide whether a unit may be measured now, and by
//! whom; the crate `benchmarks` measures.
//!
//! A benchmark that writes destroys data. So it is refused as long as a host could notice: a
//! session sees the unit, a reservation holds it, or it is write protected.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::routes::Routes;
use crate::call::Call;
use crate::endpoint::benchmark::{self as at, Preview};
use crate::gate::sees_benchmark;
use crate::plane::{Plane, Shared};
use ::config::access;
use bench::contents;
use benchmarks::{
    BenchmarkComparison, BenchmarkDetail, BenchmarkStarted, BenchmarkView, Guard, Overwrites, Plan,
    StartBenchmark, Subject,
};
use block::{BlockDevice, Lane};
use model::access::Role;
use model::config::{Config, UnitSpec};
use model::data_plane::Login;
use model::quantity::format_size;
use model::{Error, ErrorKind};

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .serve(&at::START, start)
        .serve(&at::SHOW, show)
        .serve(&at::DELETE, delete)
        .serve(&at::STOP, stop)
        .serve(&at::COMPARE, compare)
}

pub(super) fn list(call: Call) -> Result<Vec<BenchmarkView>, Error> {
    let Call { plane, asker, .. } = call;
    let grant = &asker.principal()?.grant;
    let config = plane.config();
    let mut all = plane.benchmarks.list();
    all.retain(|it| {
        grant
            .as_ref()
            .is_none_or(|grant| sees_benchmark(&config, grant, it))
    });
    Ok(all)
}

pub(super) fn show(call: Call) -> Result<BenchmarkDetail, Error> {
    let [id] = call.at.names();
    call.plane.benchmarks.show(number(&id)?)
}

pub(super) fn delete(call: Call) -> Result<(), Error> {
    let [id] = call.at.names();
    call.plane.benchmarks.remove(number(&id)?)
}

pub(super) fn stop(call: Call) -> Result<BenchmarkView, Error> {
    let Call {
        plane, asker, at, ..
    } = call;
    let [id] = at.names();
    plane
        .benchmarks
        .stop(number(&id)?, &asker.principal()?.name)
}

pub(super) fn compare(call: Call) -> Result<BenchmarkComparison, Error> {
    let [a, b] = call.at.names();
    call.plane.benchmarks.compare(number(&a)?, number(&b)?)
}

fn number(id: &str) -> Result<u64, Error> {
    id.parse().map_err(|_| {
        Error::not_found(
            format!("there is no benchmark {id:?}"),
            "a benchmark has a number; list the benchmarks",
        )
    })
}

pub(super) fn start(call: Call<Preview, StartBenchmark>) -> Result<BenchmarkStarted, Error> {
    let Call {
        plane,
        asker,
        query: how,
        body: order,
        ..
    } = call;
    let config = plane.config();
    let unit = served(&config, &order.unit)?;
    let plan = Plan::of(&order)?;
    let device = plane.benchmarks.device(&unit.name).ok_or_else(|| {
        Error::new(
            ErrorKind::Refused,
            format!("logical unit {} is not served now", unit.name),
            format!("sandstone lu list {} tells why, and what to do", unit.name),
        )
    })?;
    plan.check(&*device)?;
    plane.benchmarks.require_idle()?;
    let mut look = Look::at(&plane, unit, device)?;
    let overwrites = match plan.writes() {
        true => Some(look.overwrites(&plan)?),
        false => None,
    };
    let mut told = BenchmarkStarted {
        dry_run: how.dry_run,
        id: None,
        about: plan.about.clone(),
        workloads: workloads(&plan),
        runs: plan.runs(),
        seconds: plan.total_ms().div_ceil(1000),
        working_set: plan.working_set(look.len()),
        writes: plan.writes(),
        notes: look.notes(&plan),
        overwrites,
    };
    if how.dry_run {
        return Ok(told);
    }
    if told.overwrites.as_ref().is_some_and(|it| it.needs_name) {
        asker.principal()?.require(Role::Admin)?;
        look.require_name(&order)?;
    }
    let guard = guard(Arc::downgrade(&plane), unit, plan.writes());
    let subject = Subject {
        unit: unit.name.clone(),
        naa: unit.naa.clone(),
        device: look.device,
    };
    let by = &asker.principal()?.name;
    told.id = Some(plane.benchmarks.start(order, plan, subject, by, guard)?);
    Ok(told)
}

/// Returns a unit that is online.
fn served<'a>(config: &'a Config, name: &str) -> Result<&'a UnitSpec, Error> {
    let unit = config.unit(name).ok_or_else(|| {
        Error::not_found(
            format!("logical unit {name} does not exist"),
            "sandstone lu list shows the logical units",
        )
    })?;
    match unit.offline {
        false => Ok(unit),
        true => Err(Error::new(
            ErrorKind::Refused,
            format!("logical unit {name} is offline"),
            format!("bring it online first: sandstone lu online {name}"),
        )),
    }
}

/// Returns the names of the workloads, each once.
fn workloads(plan: &Plan) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for workload in plan.setups.iter().flat_map(|it| &it.profile.workloads) {
        if !names.contains(&workload.name) {
            names.push(workload.name.clone());
        }
    }
    names
}

/// Look at a unit before a benchmark.
struct Look<'a> {
    plane: &'a Shared,
    unit: &'a UnitSpec,
    device: Arc<dyn BlockDevice>,
    lane: Lane,
    is_empty: bool,
}

impl<'a> Look<'a> {
    fn at(
        plane: &'a Shared,
        unit: &'a UnitSpec,
        device: Arc<dyn BlockDevice>,
    ) -> Result<Self, Error> {
        let lane = Lane::standing().map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the system gave no event descriptor: {error}"),
                "raise the limit on descriptors (`ulimit -n`)",
            )
        })?;
        let mut look = Self {
            plane,
            unit,
            device,
            lane,
            is_empty: false,
        };
        look.is_empty = contents::is_empty(&look.device, &mut look.lane);
        Ok(look)
    }

    fn len(&self) -> u64 {
        self.device.geometry().len
    }

    /// Describes the contents of the unit.
    fn holds(&mut self) -> String {
        let holds = contents::describe(&self.device, &mut self.lane);
        holds.unwrap_or_else(|error| format!("data that cannot be read ({error})"))
    }

    /// Returns what a benchmark that writes overwrites.
    ///
    /// # Errors
    /// Hosts use the unit, or it takes no writes.
    fn overwrites(&mut self, plan: &Plan) -> Result<Overwrites, Error> {
        let name = &self.unit.name;
        let refused = |message: String, next: String| {
            let error = Error::new(ErrorKind::InUse, message, next);
            Err(error.not_changed("nothing was written"))
        };
        let config = self.plane.config();
        let logins = self.plane.transactions.data_plane().logins();
        if let Some(session) = user_of(&config, &logins, &self.unit.naa) {
            return refused(
                format!(
                    "this benchmark writes, and {} uses lu {name} in session {}",
                    session.initiator, session.tsih
                ),
                "measure reads only, or let the host log out first".to_owned(),
            );
        }
        let status = self
            .plane
            .transactions
            .data_plane()
            .unit(name)
            .unwrap_or_default();
        if let Some(reservation) = status.reservation {
            return refused(
                format!("this benchmark writes, and lu {name} is reserved: {reservation}"),
                "measure reads only, or end the reservation first".to_owned(),
            );
        }
        if self.device.is_read_only() || status.read_only {
            return refused(
                format!("this benchmark writes, and lu {name} is write protected"),
                format!("measure reads only, or see why: sandstone lu list {name}"),
            );
        }
        let len = self.len();
        let set = plan.working_set(len);
        let part = match set < len {
            true => format!("the first {} of {}", format_size(set), format_size(len)),
            false => format!("all {}", format_size(len)),
        };
        let holds = match self.is_empty {
            true => "which holds no data".to_owned(),
            false => format!("which holds {}", self.holds()),
        };
        let maps = config.maps.iter().filter(|map| map.unit == *name);
        let hosts: Vec<&str> = maps
            .map(|map| map.host.as_deref().unwrap_or("every host"))
            .collect();
        let users = match hosts.is_empty() {
            true => String::new(),
            false => format!("; mapped to {}, without a session now", hosts.join(", ")),
        };
        Ok(Overwrites {
            words: format!("{part} of lu {name}, {holds}{users}"),
            needs_name: !self.is_empty || !hosts.is_empty(),
        })
    }

    /// Refuses an order that destroys data, unless the user typed the name of the unit.
    fn require_name(&mut self, order: &StartBenchmark) -> Result<(), Error> {
        let name = &self.unit.name;
        if order.overwrite.as_ref() == Some(name) {
            return Ok(());
        }
        let len = self.len();
        let shown = format!("lu {name}");
        let holds = self.holds();
        let error = Error::new(
            ErrorKind::Refused,
            contents::would_destroy(&shown, len, &holds),
            "if the data is no longer needed, type the name of the unit to overwrite it; or measure \
             reads only",
        );
        Err(error.not_changed("nothing was written"))
    }

    /// Returns what to know before a benchmark starts.
    fn notes(&self, plan: &Plan) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_empty && !plan.writes() {
            notes.push(
                "the unit holds no data, so reads are answered without a disk: the figures say \
                 nothing of disks"
                    .to_owned(),
            );
        }
        if !self.is_empty && self.device.has_read_cache() {
            notes.push(
                "reads of what lies in the cache are faster than disks: use a part of the unit \
                 larger than the cache to measure disks"
                    .to_owned(),
            );
        }
        let logins = self.plane.transactions.data_plane().logins();
        if user_of(&self.plane.config(), &logins, &self.unit.naa).is_some() {
            notes.push(
                "hosts use the unit now: they and the benchmark slow each other down".to_owned(),
            );
        }
        notes
    }
}

/// Returns a session that sees a unit.
fn user_of<'a>(config: &Config, logins: &'a [Login], naa: &str) -> Option<&'a Login> {
    logins.iter().find(|login| {
        let target = login.target.to_ascii_lowercase();
        let views = access::luns(config, &login.initiator, &target);
        views.iter().any(|view| view.naa == naa)
    })
}

/// Returns the guard of a benchmark: it ends when the unit is gone or offline, and one that writes
/// ends when a host begins to use the unit.
fn guard(plane: Weak<Plane>, unit: &UnitSpec, writes: bool) -> Guard {
    let (name, naa) = (unit.name.clone(), unit.naa.clone());
    // Generation and logins at the last look that found no user. As long as both stay, none is
    // looked for: to find what thousands of sessions see takes longer than the time between two
    // looks.
    let last = Mutex::new(None);
    Box::new(move || {
        let plane = plane.upgrade()?;
        let config = plane.config();
        let unit = config.units.iter().find(|unit| unit.naa == naa);
        let Some(unit) = unit else {
            return Some(format!("lu {name} was removed"));
        };
        if unit.offline {
            return Some(format!("lu {name} was taken offline"));
        }
        if !writes {
            return None;
        }
        let logins = plane.transactions.data_plane().logins();
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Some((config.generation, logins));
        if *last == now {
            return None;
        }
        let (_, logins) = now.as_ref()?;
        if let Some(user) = user_of(&config, logins, &naa) {
            return Some(format!("{} began to use lu {name}", user.initiator));
        }
        *last = now;
        None
    })
}
