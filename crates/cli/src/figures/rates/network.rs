//! Rates of the network interfaces of the daemon's machine.

use super::seconds;
use model::figures::Snapshot;
use model::figures::network::{InterfaceFigures, InterfaceSums};

/// An interface with its rates.
#[derive(Clone, Debug)]
pub(crate) struct InterfaceRates<'a> {
    /// The interface.
    pub(crate) interface: &'a InterfaceFigures,
    /// Packets sent in a second.
    pub(crate) sent_packets: f64,
    /// Bits sent in a second.
    pub(crate) sent_bits: f64,
    /// Packets received in a second.
    pub(crate) received_packets: f64,
    /// Bits received in a second.
    pub(crate) received_bits: f64,
    /// Percentage of the packets to be sent that were dropped.
    pub(crate) sent_dropped_percent: f64,
    /// Percentage of the packets received that were dropped.
    pub(crate) received_dropped_percent: f64,
}

/// Returns the rates of all interfaces, by number. An interface that is new has counted nothing
/// since the earlier snapshot.
pub(crate) fn of_interfaces<'a>(before: &Snapshot, now: &'a Snapshot) -> Vec<InterfaceRates<'a>> {
    let seconds = seconds(before, now);
    let rates = now.interfaces.iter().map(|interface| {
        let is_same =
            |of: &&InterfaceFigures| (of.number, &of.name) == (interface.number, &interface.name);
        let earlier = before.interfaces.iter().find(is_same);
        // Counters of an interface count from the start of the machine, not of the daemon.
        let earlier = earlier.map_or(interface.sums, |earlier| earlier.sums);
        of_interface(interface, &interface.sums.since(&earlier), seconds)
    });
    rates.collect()
}

fn of_interface<'a>(
    interface: &'a InterfaceFigures,
    sums: &InterfaceSums,
    seconds: f64,
) -> InterfaceRates<'a> {
    let rate = |sum: u64| sum as f64 / seconds;
    let percent = |dropped: u64, passed: u64| match dropped + passed {
        0 => 0.0,
        all => 100.0 * dropped as f64 / all as f64,
    };
    InterfaceRates {
        interface,
        sent_packets: rate(sums.sent_packets),
        sent_bits: rate(sums.sent_bytes) * 8.0,
        received_packets: rate(sums.received_packets),
        received_bits: rate(sums.received_bytes) * 8.0,
        sent_dropped_percent: percent(sums.sent_dropped, sums.sent_packets),
        received_dropped_percent: percent(sums.received_dropped, sums.received_packets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_told_in_bits_and_drops_in_percent() {
        let snapshot = |at_s: u64, packets| Snapshot {
            at_us: at_s * 1_000_000,
            interfaces: vec![InterfaceFigures {
                name: "eth0".into(),
                sums: InterfaceSums {
                    sent_packets: packets * 3,
                    sent_dropped: packets,
                    sent_bytes: packets * 1000,
                    ..InterfaceSums::default()
                },
                ..InterfaceFigures::default()
            }],
            ..Snapshot::default()
        };
        let (before, now) = (snapshot(1, 100), snapshot(3, 300));
        let told = &of_interfaces(&before, &now)[0];
        assert_eq!((told.sent_packets, told.sent_bits), (300.0, 800_000.0));
        assert_eq!(told.sent_dropped_percent, 25.0);
        assert_eq!(told.received_dropped_percent, 0.0);
        // A new interface, or one in the first report, has no rate yet.
        let first = &of_interfaces(&Snapshot::default(), &now)[0];
        assert_eq!(first.sent_packets, 0.0);
    }
}
