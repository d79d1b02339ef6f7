//! Units as hosts use them: the sessions of a host together, which are its paths.

use std::collections::BTreeMap;

use super::{Activity, Queue, Rates, Use};
use model::figures::SessionSnapshot;

/// A unit as one host uses it, over all its sessions.
#[derive(Clone, Debug)]
pub(crate) struct HostUse<'a> {
    /// Name of the host; the initiator's name if it belongs to none.
    pub(crate) host: String,
    /// LUN under which the host sees the unit.
    pub(crate) lun: u16,
    /// Name of the unit.
    pub(crate) unit: String,
    /// Commands of all sessions together.
    pub(crate) activity: Activity,
    /// Use by each session.
    pub(crate) paths: Vec<Use<'a>>,
}

/// Returns the name of the host to which a session belongs.
pub(crate) fn name(session: &SessionSnapshot) -> &str {
    session.host.as_deref().unwrap_or(&session.initiator)
}

/// Returns the units that hosts use, by host, LUN and unit.
pub(crate) fn of_hosts(uses: Vec<Use<'_>>) -> Vec<HostUse<'_>> {
    let mut by_host: BTreeMap<(String, u16, String), Vec<Use<'_>>> = BTreeMap::new();
    for of in uses {
        let key = (name(of.session).to_owned(), of.lun.lun, of.lun.unit.clone());
        by_host.entry(key).or_default().push(of);
    }
    let hosts = by_host
        .into_iter()
        .map(|((host, lun, unit), paths)| HostUse {
            activity: together(paths.iter().map(|path| &path.activity)),
            host,
            lun,
            unit,
            paths,
        });
    hosts.collect()
}

/// Returns the rates of several objects together. Quantiles cannot be added, and are left out.
pub(crate) fn together<'a>(all: impl Iterator<Item = &'a Activity>) -> Activity {
    let mut sum = Activity::default();
    for one in all {
        sum.interval_s = sum.interval_s.max(one.interval_s);
        sum.reads = plus(&sum.reads, &one.reads);
        sum.writes = plus(&sum.writes, &one.writes);
        sum.both = plus(&sum.both, &one.both);
        sum.all = plus(&sum.all, &one.all);
        sum.others_per_s += one.others_per_s;
        let queue = one.queue.unwrap_or_default();
        sum.queue = Some(sum.queue.unwrap_or_default()).map(|it: Queue| it.plus(queue));
    }
    sum
}

/// Adds rates; averages are weighted by the numbers of commands.
fn plus(a: &Rates, b: &Rates) -> Rates {
    let per_s = a.per_s + b.per_s;
    let mean = |of: fn(&Rates) -> Option<f64>| match (of(a), of(b)) {
        (Some(x), Some(y)) if per_s > 0.0 => Some((x * a.per_s + y * b.per_s) / per_s),
        (one, other) => one.or(other),
    };
    Rates {
        per_s,
        bytes_per_s: a.bytes_per_s + b.bytes_per_s,
        latency_ns: mean(|it| it.latency_ns),
        wire_in_ns: mean(|it| it.wire_in_ns),
        queue_ns: mean(|it| it.queue_ns),
        device_ns: mean(|it| it.device_ns),
        reply_ns: mean(|it| it.reply_ns),
        p50_ns: None,
        p99_ns: None,
        waiting: a.waiting + b.waiting,
        active: a.active + b.active,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_weighted_by_commands() {
        let activity = |per_s, latency_ns| Activity {
            reads: Rates {
                per_s,
                bytes_per_s: per_s * 512.0,
                latency_ns,
                p99_ns: Some(9.0),
                ..Rates::default()
            },
            ..Activity::default()
        };
        let (a, b, rests) = (
            activity(30.0, Some(100.0)),
            activity(10.0, Some(500.0)),
            activity(0.0, None),
        );
        let sum = together([&a, &rests, &b].into_iter()).reads;
        assert_eq!((sum.per_s, sum.bytes_per_s), (40.0, 20_480.0));
        assert_eq!((sum.latency_ns, sum.p99_ns), (Some(200.0), None));
        assert_eq!(together([&rests].into_iter()).reads.latency_ns, None);
    }
}
