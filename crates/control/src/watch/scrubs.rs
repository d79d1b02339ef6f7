//! Times at which pools were last scrubbed, or else created, from their histories.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::pool::status::PoolView;
use pools::Pools;

/// Time after which a pool's history is read again: it may be long.
const AGAIN: Duration = Duration::from_secs(3600);

/// Times of pools' scrubs.
#[derive(Debug, Default)]
pub(super) struct Scrubs {
    pools: BTreeMap<String, Known>,
    told: Arc<Vec<(String, u64)>>,
}

#[derive(Debug)]
struct Known {
    /// Time of the scan that was the last when the history was read, in seconds since 1970.
    scan_s: u64,
    read: Instant,
    scrubbed_s: u64,
}

impl Scrubs {
    /// Returns the times, in seconds since 1970. Histories are read where a scan has ended since.
    pub(super) fn look(&mut self, pools: &Pools, views: &[PoolView]) -> Arc<Vec<(String, u64)>> {
        let mut is_changed = false;
        self.pools.retain(|name, _| {
            let is_there = views.iter().any(|view| view.name == *name);
            is_changed |= !is_there;
            is_there
        });
        for view in views.iter().filter(|view| view.open_for_us.is_some()) {
            let scan_s = view.scan_status.as_ref().map_or(0, |scan| scan.ended_s);
            let known = self.pools.get(&view.name);
            if known.is_some_and(|it| it.scan_s == scan_s && it.read.elapsed() < AGAIN) {
                continue;
            }
            let Some(in_history_s) = last_scrub(pools, &view.name) else {
                continue;
            };
            let scan = view.scan_status.as_ref();
            let is_scrub = scan.is_some_and(|it| it.kind == "scrub" && it.state == "finished");
            let known = Known {
                scan_s,
                read: Instant::now(),
                scrubbed_s: if is_scrub { scan_s } else { 0 }.max(in_history_s),
            };
            self.pools.insert(view.name.clone(), known);
            is_changed = true;
        }
        if is_changed {
            let times = self.pools.iter();
            self.told = Arc::new(
                times
                    .map(|(name, it)| (name.clone(), it.scrubbed_s))
                    .collect(),
            );
        }
        Arc::clone(&self.told)
    }
}

/// Returns the time of the last scrub in the history, or else that of the first entry, which is the
/// pool's creation.
fn last_scrub(pools: &Pools, name: &str) -> Option<u64> {
    let history = pools.history(name).ok()?;
    let mut entries = history.entries.iter();
    let first = entries.next()?;
    let scrub = entries.rfind(|it| it.is_internal && it.text.starts_with("scrub repaired"));
    Some(scrub.unwrap_or(first).time_s)
}
