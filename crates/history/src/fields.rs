//! Figures of a slot, by kind of object: how each is encoded, and how many slots become one.

use model::history::{HistoryKind, SeriesUnit};

use super::compact::{pack, unpack};

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 24;
/// Most figures that a slot holds.
pub(crate) const MOST_FIELDS: usize = 12;
/// Bytes of one step of a figure of space.
const BLOCK: f64 = 65_536.0;
/// Code of a figure of space that does not exist.
const NO_SPACE: u64 = (1 << 40) - 1;

/// Figures of one object for one step of time, as bytes.
pub(crate) type Slot = [u8; SLOT_BYTES];
/// Figures of one object for one step of time. Kinds with fewer figures leave the rest empty.
pub(crate) type Values = [Option<f64>; MOST_FIELDS];

/// Encoding of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    /// Two bytes, to half a thousandth of the value.
    Compact,
    /// Five bytes, to 64 KiB. The growth of a large pool in a day must not vanish.
    Space,
}

/// Rule by which the values of many steps become one.
#[derive(Clone, Copy)]
enum Summing {
    /// Mean of the steps that have a value, each with this weight.
    Mean(fn(&Values) -> f64),
    /// Largest value. Quantiles have no mean, so the worst step stands for all.
    Worst,
    /// Value of the last step that has one.
    Last,
}

/// One figure.
pub(crate) struct Field {
    /// Name of the figure in the API.
    pub(crate) name: &'static str,
    /// Unit of the values.
    pub(crate) unit: SeriesUnit,
    coding: Coding,
    summing: Summing,
}

const fn field(name: &'static str, unit: SeriesUnit, coding: Coding, summing: Summing) -> Field {
    Field {
        name,
        unit,
        coding,
        summing,
    }
}

fn equal(_: &Values) -> f64 {
    1.0
}

fn reads(values: &Values) -> f64 {
    values[0].unwrap_or(0.0)
}

fn writes(values: &Values) -> f64 {
    values[1].unwrap_or(0.0)
}

fn both(values: &Values) -> f64 {
    reads(values) + writes(values)
}

const fn rate(name: &'static str) -> Field {
    use SeriesUnit::PerSecond;
    field(name, PerSecond, Coding::Compact, Summing::Mean(equal))
}

const fn bytes_per_s(name: &'static str) -> Field {
    use SeriesUnit::BytesPerSecond;
    field(name, BytesPerSecond, Coding::Compact, Summing::Mean(equal))
}

const fn time(name: &'static str, weight: fn(&Values) -> f64) -> Field {
    use SeriesUnit::Nanoseconds;
    field(name, Nanoseconds, Coding::Compact, Summing::Mean(weight))
}

const fn quantile(name: &'static str) -> Field {
    use SeriesUnit::Nanoseconds;
    field(name, Nanoseconds, Coding::Compact, Summing::Worst)
}

const fn space(name: &'static str) -> Field {
    field(name, SeriesUnit::Bytes, Coding::Space, Summing::Last)
}

/// Figures of all that has commands. Reads and writes come first, because they are the weights of
/// the times.
static OF_COMMANDS: [Field; 12] = [
    rate("reads_per_s"),
    rate("writes_per_s"),
    bytes_per_s("read_bytes_per_s"),
    bytes_per_s("written_bytes_per_s"),
    time("read_latency_ns", reads),
    time("write_latency_ns", writes),
    time("wire_in_ns", both),
    time("queue_ns", both),
    time("device_ns", both),
    time("reply_ns", both),
    quantile("read_p99_ns"),
    quantile("write_p99_ns"),
];

/// Figures of pools.
static OF_POOLS: [Field; 6] = [
    rate("reads_per_s"),
    rate("writes_per_s"),
    space("size_bytes"),
    space("available_bytes"),
    space("allocated_bytes"),
    space("promised_bytes"),
];

/// Place of each figure of commands in [`Values`].
pub(crate) mod commands {
    pub(crate) const READS: usize = 0;
    pub(crate) const WRITES: usize = 1;
    pub(crate) const READ_BYTES: usize = 2;
    pub(crate) const WRITTEN_BYTES: usize = 3;
    pub(crate) const READ_LATENCY: usize = 4;
    pub(crate) const WRITE_LATENCY: usize = 5;
    pub(crate) const WIRE_IN: usize = 6;
    pub(crate) const QUEUE: usize = 7;
    pub(crate) const DEVICE: usize = 8;
    pub(crate) const REPLY: usize = 9;
    pub(crate) const READ_P99: usize = 10;
    pub(crate) const WRITE_P99: usize = 11;
}

/// Place of each figure of pools in [`Values`].
pub(crate) mod pool {
    pub(crate) const READS: usize = 0;
    pub(crate) const WRITES: usize = 1;
    pub(crate) const SIZE: usize = 2;
    pub(crate) const AVAILABLE: usize = 3;
    pub(crate) const ALLOCATED: usize = 4;
    pub(crate) const PROMISED: usize = 5;
}

/// Returns the figures in the slots of a kind.
pub(crate) fn fields(kind: HistoryKind) -> &'static [Field] {
    match kind {
        HistoryKind::Pool => &OF_POOLS,
        _ => &OF_COMMANDS,
    }
}

/// Returns the places of the figures that objects of a kind have. Nothing counts the latencies of
/// hosts by size, and devices have no network.
pub(crate) fn told(kind: HistoryKind) -> Vec<usize> {
    use commands::{READ_P99, REPLY, WIRE_IN, WRITE_P99};
    let left_out: &[usize] = match kind {
        HistoryKind::Unit | HistoryKind::PortGroup | HistoryKind::Pool => &[],
        HistoryKind::Host => &[READ_P99, WRITE_P99],
        HistoryKind::Disk => &[READ_P99, WRITE_P99, WIRE_IN, REPLY],
    };
    let all = 0..fields(kind).len();
    all.filter(|at| !left_out.contains(at)).collect()
}

/// Encodes the figures of an object of a kind.
pub(crate) fn encode(kind: HistoryKind, values: &Values) -> Slot {
    let mut slot = [0; SLOT_BYTES];
    let mut at = 0;
    for (field, value) in fields(kind).iter().zip(values) {
        match field.coding {
            Coding::Compact => {
                slot[at..at + 2].copy_from_slice(&pack(*value).to_le_bytes());
                at += 2;
            }
            Coding::Space => {
                let code = value.map_or(NO_SPACE, |bytes| {
                    ((bytes / BLOCK).round() as u64).min(NO_SPACE - 1)
                });
                slot[at..at + 5].copy_from_slice(&code.to_le_bytes()[..5]);
                at += 5;
            }
        }
    }
    slot
}

/// Decodes the figures of an object of a kind.
pub(crate) fn decode(kind: HistoryKind, slot: &Slot) -> Values {
    let mut values = Values::default();
    let mut at = 0;
    for (field, value) in fields(kind).iter().zip(&mut values) {
        match field.coding {
            Coding::Compact => {
                *value = unpack(u16::from_le_bytes([slot[at], slot[at + 1]]));
                at += 2;
            }
            Coding::Space => {
                let mut code = [0; 8];
                code[..5].copy_from_slice(&slot[at..at + 5]);
                let code = u64::from_le_bytes(code);
                *value = (code != NO_SPACE).then_some(code as f64 * BLOCK);
                at += 5;
            }
        }
    }
    values
}

/// Sums up the figures of several steps, which come in the order of their time.
pub(crate) fn summed_up(kind: HistoryKind, steps: &[Slot]) -> Slot {
    let steps: Vec<Values> = steps.iter().map(|slot| decode(kind, slot)).collect();
    let mut values = Values::default();
    for (at, field) in fields(kind).iter().enumerate() {
        let known = || steps.iter().filter_map(|step| Some((step, step[at]?)));
        values[at] = match field.summing {
            Summing::Last => known().next_back().map(|(_, value)| value),
            Summing::Worst => known().map(|(_, value)| value).reduce(f64::max),
            Summing::Mean(weight) => {
                let weights: f64 = known().map(|(step, _)| weight(step)).sum();
                let sum: f64 = known().map(|(step, value)| weight(step) * value).sum();
                (weights > 0.0).then_some(sum / weights)
            }
        };
    }
    encode(kind, &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(reads: f64, latency: Option<f64>, p99: Option<f64>) -> Slot {
        let mut values = Values::default();
        values[commands::READS] = Some(reads);
        values[commands::WRITES] = Some(0.0);
        values[commands::READ_LATENCY] = latency;
        values[commands::DEVICE] = latency;
        values[commands::READ_P99] = p99;
        encode(HistoryKind::Unit, &values)
    }

    #[test]
    fn times_are_weighed_by_commands_and_the_worst_quantile_stands() {
        let steps = [
            step(300.0, Some(1000.0), Some(4000.0)),
            step(100.0, Some(2000.0), Some(8192.0)),
            step(0.0, None, None),
        ];
        let told = decode(HistoryKind::Unit, &summed_up(HistoryKind::Unit, &steps));
        let near = |at: usize, expected: f64| {
            let value = told[at].expect("a value");
            assert!(
                (value - expected).abs() <= expected / 500.0,
                "{at}: {value}"
            );
        };
        near(commands::READS, 400.0 / 3.0);
        near(commands::READ_LATENCY, 1250.0);
        near(commands::DEVICE, 1250.0);
        near(commands::READ_P99, 8192.0);
        assert_eq!(told[commands::WRITES], Some(0.0));
        assert_eq!(told[commands::WRITE_LATENCY], None);
        assert_eq!(told[commands::WRITE_P99], None);
    }

    #[test]
    fn space_is_that_of_the_last_step_and_known_to_64_kib() {
        let step = |available: Option<f64>| {
            let mut values = Values::default();
            values[pool::SIZE] = Some(2f64.powi(54));
            values[pool::AVAILABLE] = available;
            encode(HistoryKind::Pool, &values)
        };
        let steps = [step(Some(2f64.powi(53))), step(Some(1e9)), step(None)];
        let told = decode(HistoryKind::Pool, &summed_up(HistoryKind::Pool, &steps));
        assert_eq!(told[pool::SIZE], Some(2f64.powi(54)));
        let available = told[pool::AVAILABLE].expect("a value");
        assert!((available - 1e9).abs() <= BLOCK / 2.0, "{available}");
        assert_eq!(told[pool::PROMISED], None);
        assert_eq!(told[pool::READS], None);
    }

    #[test]
    fn every_kind_fits_into_a_slot() {
        for kind in HistoryKind::ALL {
            let bytes = fields(kind).iter().map(|field| match field.coding {
                Coding::Compact => 2,
                Coding::Space => 5,
            });
            assert_eq!(bytes.sum::<usize>(), SLOT_BYTES, "{kind:?}");
            assert!(!told(kind).is_empty());
        }
    }
}
