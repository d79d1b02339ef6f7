//! Conditions of pools and their devices.

use std::collections::{BTreeMap, VecDeque};

use super::{Moment, Watch, finding};
use crate::condition as of;
use crate::facts::{Facts, Finding};
use model::pool::status::{NO_ERRORS, PoolView};
use model::pool::vdev::VdevView;
use model::quantity::format_size;

/// Time within which errors of a device count as growing, in milliseconds.
const GROWTH_MS: u64 = 600_000;
/// Number of times that errors must have grown within [`GROWTH_MS`].
const GROWTHS: usize = 2;
/// Percentage by which a pool must fall below a threshold before the alert ends.
const BACK: u64 = 3;
/// Age of the last scrub that is too old, in seconds: twice a month.
const SCRUB_S: u64 = 62 * 86_400;
/// Days within which a full pool is forecast.
const FORECAST_DAYS: u64 = 14;
/// Multiple of a pool's size that its volumes may promise.
const PROMISED: u64 = 3;

impl Watch {
    /// Judges all pools.
    pub(super) fn pools(&mut self, facts: &Facts, now: Moment, found: &mut Vec<Finding>) {
        let names: Vec<&str> = facts.pools.iter().map(|it| it.name.as_str()).collect();
        self.last_open
            .retain(|name, _| names.contains(&name.as_str()));
        for pool in facts.pools.iter() {
            state(pool, found);
            if pool.open_for_us.is_none() {
                // The state of its devices is not known now, and the last known still counts.
                found.extend(
                    self.last_open
                        .get(&pool.name)
                        .into_iter()
                        .flatten()
                        .cloned(),
                );
                continue;
            }
            let before = self.last_open.remove(&pool.name).unwrap_or_default();
            let mut details = Vec::new();
            space(pool, &before, &mut details);
            promised(pool, &mut details);
            spares(pool, &mut details);
            for leaf in leaves(pool) {
                device(pool, leaf, &mut details);
                self.device_errors.judge(pool, leaf, now, &mut details);
            }
            self.mirror_pace.judge(pool, now, &mut details);
            found.extend(details.iter().cloned());
            self.last_open.insert(pool.name.clone(), details);
        }
        self.device_errors.forget(&facts.pools);
        self.mirror_pace.forget(&facts.pools);
        scrubs(facts, now, found);
        forecasts(facts, found);
    }
}

/// Returns the name of a device as an object of alerts.
fn device_name(pool: &PoolView, leaf: &VdevView) -> String {
    format!("{} {}", pool.name, leaf.name)
}

/// Place where the new device of a command is found.
const FREE_DEVICES: &str = "sandstone pool disks lists free ones";

/// Returns the command that replaces a device, and where the new one is found.
fn replaced(pool: &PoolView, leaf: &VdevView) -> String {
    format!(
        "sandstone pool replace {} {} NEW ({FREE_DEVICES})",
        pool.name, leaf.name
    )
}

/// Returns the step that the pool's own status advises, or a look at it.
fn advised(pool: &PoolView) -> String {
    let look = || format!("sandstone pool status {}", pool.name);
    pool.action.clone().unwrap_or_else(look)
}

/// Returns the devices for blocks, and those for the log.
fn leaves(pool: &PoolView) -> Vec<&VdevView> {
    let tops = pool.vdevs.iter().chain(&pool.logs);
    let all = tops.flat_map(VdevView::all);
    all.filter(|it| it.children.is_empty()).collect()
}

fn state(pool: &PoolView, found: &mut Vec<Finding>) {
    let said = || pool.status.clone().unwrap_or_default();
    let condition = match pool.state.as_str() {
        "ONLINE" => None,
        "DEGRADED" => Some(&of::POOL_DEGRADED),
        "SUSPENDED" => Some(&of::POOL_SUSPENDED),
        _ => Some(&of::POOL_NOT_OPEN),
    };
    if let Some(condition) = condition {
        found.push(finding(condition, &pool.name, said(), advised(pool)));
    }
    if pool.open_for_us.is_some() && pool.errors != NO_ERRORS {
        let text = format!("{}.", pool.errors);
        found.push(finding(&of::DATA_LOST, &pool.name, text, advised(pool)));
    }
}

/// Judges the space. An alert that is open ends only when the pool is clearly below its threshold.
fn space(pool: &PoolView, before: &[Finding], found: &mut Vec<Finding>) {
    if pool.is_read_only || pool.size == 0 {
        return;
    }
    let percent = pool.allocated.saturating_mul(100) / pool.size;
    let was = |condition: &of::Condition| {
        let mut before = before.iter();
        before.any(|finding| std::ptr::eq(finding.condition, condition))
    };
    let is_over = |condition: &of::Condition, threshold: u64| {
        let back = if was(condition) { BACK } else { 0 };
        percent + back >= threshold
    };
    let condition = match () {
        () if pool.is_full => &of::POOL_FULL,
        () if is_over(&of::POOL_90_PERCENT, 90) => &of::POOL_90_PERCENT,
        () if is_over(&of::POOL_80_PERCENT, 80) => &of::POOL_80_PERCENT,
        () => return,
    };
    let text = match pool.is_full {
        true => "The pool is full: writes that need space fail.".to_owned(),
        false => format!("{percent} % of the pool's space is in use."),
    };
    let next = format!(
        "sandstone volume list -t all -r -S used {0} lists what takes the space; sandstone pool add {0} VDEV adds \
         devices ({FREE_DEVICES})",
        pool.name
    );
    found.push(finding(condition, &pool.name, text, next));
}

/// Judges what volumes promise. Some parity is part of the size, so the limit is a coarse one.
fn promised(pool: &PoolView, found: &mut Vec<Finding>) {
    if pool.promised <= pool.size.saturating_mul(PROMISED) || pool.is_read_only {
        return;
    }
    let text = format!(
        "Volumes promise {} of {}.",
        format_size(pool.promised),
        format_size(pool.size)
    );
    let next = format!("sandstone volume list -t all -r -S volsize {}", pool.name);
    found.push(finding(&of::POOL_PROMISED_TOO_MUCH, &pool.name, text, next));
}

fn spares(pool: &PoolView, found: &mut Vec<Finding>) {
    for spare in pool.spares.iter().filter(|spare| spare.state == "INUSE") {
        let text = format!("The spare {} is in use.", spare.name);
        let next = format!(
            "sandstone pool status {0} shows the device it stands for; replace that with sandstone pool replace {0} \
             DEVICE NEW ({FREE_DEVICES})",
            pool.name
        );
        found.push(finding(
            &of::SPARE_IN_USE,
            device_name(pool, spare),
            text,
            next,
        ));
    }
    let is_ready = |spare: &VdevView| spare.state == "AVAIL" && spare.note.is_none();
    if !pool.spares.is_empty() && !pool.spares.iter().any(is_ready) {
        let count = pool.spares.len();
        let text = format!("None of the pool's {count} spares can be used.");
        let next = format!(
            "sandstone pool add {} spare DEVICE ({FREE_DEVICES})",
            pool.name
        );
        found.push(finding(&of::NO_SPARE_LEFT, &pool.name, text, next));
    }
}

fn device(pool: &PoolView, leaf: &VdevView, found: &mut Vec<Finding>) {
    let note = leaf.note.as_deref().unwrap_or("no reason is known");
    if matches!(leaf.state.as_str(), "FAULTED" | "UNAVAIL" | "REMOVED") {
        let text = format!("{} is {}: {note}.", leaf.name, leaf.state);
        found.push(finding(
            &of::DEVICE_FAULTED,
            device_name(pool, leaf),
            text,
            replaced(pool, leaf),
        ));
    }
    if leaf.checksum > 0 {
        let text = format!(
            "{} returned wrong bytes {} times.",
            leaf.name, leaf.checksum
        );
        let next = format!(
            "sandstone pool scrub {0}, then sandstone pool clear {0} {1}",
            pool.name, leaf.name
        );
        found.push(finding(
            &of::CHECKSUM_ERRORS,
            device_name(pool, leaf),
            text,
            next,
        ));
    }
}

/// Errors of devices at earlier moments.
#[derive(Debug, Default)]
pub(super) struct DeviceErrors {
    devices: BTreeMap<String, Growth>,
}

#[derive(Debug, Default)]
struct Growth {
    errors: u64,
    /// Times at which the number grew, in milliseconds of this run.
    at_ms: VecDeque<u64>,
}

impl DeviceErrors {
    fn judge(&mut self, pool: &PoolView, leaf: &VdevView, now: Moment, found: &mut Vec<Finding>) {
        let name = device_name(pool, leaf);
        let errors = leaf.read + leaf.write + leaf.checksum;
        let first = Growth {
            errors,
            ..Growth::default()
        };
        let growth = self.devices.entry(name.clone()).or_insert(first);
        if errors > growth.errors {
            growth.at_ms.push_back(now.run_ms);
            if growth.at_ms.len() > GROWTHS {
                growth.at_ms.pop_front();
            }
        }
        if errors < growth.errors {
            // The administrator cleared it.
            growth.at_ms.clear();
        }
        growth.errors = errors;
        growth.at_ms.retain(|at| at + GROWTH_MS > now.run_ms);
        if growth.at_ms.len() >= GROWTHS {
            let text = format!(
                "{}: {} reads and {} writes failed, {} reads returned wrong bytes, and more come.",
                leaf.name, leaf.read, leaf.write, leaf.checksum
            );
            let next = replaced(pool, leaf);
            found.push(finding(&of::DEVICE_ERRORS_GROWING, name, text, next));
        }
    }

    /// Forgets devices that are gone from open pools.
    fn forget(&mut self, pools: &[PoolView]) {
        let closed = pools.iter().filter(|pool| pool.open_for_us.is_none());
        let closed: Vec<String> = closed.map(|pool| format!("{} ", pool.name)).collect();
        let open = pools.iter().filter(|pool| pool.open_for_us.is_some());
        let names: std::collections::HashSet<String> = open
            .flat_map(|pool| leaves(pool).into_iter().map(|it| device_name(pool, it)))
            .collect();
        self.devices.retain(|name, _| {
            names.contains(name) || closed.iter().any(|pool| name.starts_with(pool))
        });
    }
}

fn scrubs(facts: &Facts, now: Moment, found: &mut Vec<Finding>) {
    let now_s = now.wall_ms / 1000;
    for (name, at_s) in facts.scrubbed_s.iter() {
        let mut pools = facts.pools.iter();
        let Some(pool) = pools.find(|pool| pool.name == *name) else {
            continue;
        };
        let scan = pool.scan_status.as_ref();
        let is_under_way = scan.is_some_and(|scan| {
            scan.kind == "scrub" && matches!(scan.state.as_str(), "running" | "paused")
        });
        let age_s = now_s.saturating_sub(*at_s);
        if is_under_way || pool.is_read_only || age_s < SCRUB_S {
            continue;
        }
        let text = format!("No scrub has ended for {} days.", age_s / 86_400);
        let next = format!("sandstone pool scrub {name}");
        found.push(finding(&of::SCRUB_OVERDUE, name, text, next));
    }
}

fn forecasts(facts: &Facts, found: &mut Vec<Finding>) {
    let soon = facts.forecasts.iter();
    for forecast in soon.filter(|it| it.soonest_days < FORECAST_DAYS) {
        let text = match forecast.latest_days {
            Some(latest) => format!(
                "At the pace of the last days, the pool is full in {} to {latest} days.",
                forecast.soonest_days
            ),
            None => format!(
                "At the pace of the last days, the pool may be full in {} days.",
                forecast.soonest_days
            ),
        };
        let next = format!(
            "sandstone pool add {} VDEV adds devices ({FREE_DEVICES})",
            forecast.pool
        );
        found.push(finding(
            &of::FULL_WITHIN_14_DAYS,
            &forecast.pool,
            text,
            next,
        ));
    }
}
