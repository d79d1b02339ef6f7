//! Capacity of the wire, of which storage reached a share. It is the link's nominal speed less
//! TCP's overhead, or the measured throughput of paths.

use super::units;
use crate::network::client::Direction;
use crate::network::result::NetworkResult;
use crate::network::wire::Packing;

/// Measured path with its label on the page.
#[derive(Clone, Debug)]
pub struct MeasuredPath {
    /// Label that tells this path from others: the name of its file.
    pub label: String,
    /// Result of the measurement.
    pub result: NetworkResult,
}

/// Network between the machine that made the load and the storage, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Paths that were measured.
    pub paths: Vec<MeasuredPath>,
    /// Capacity of all paths together.
    pub wire: Option<Wire>,
}

impl Network {
    /// Describes a link of this nominal speed that was not measured.
    pub fn of_link(bits_per_s: f64) -> Self {
        let ethernet = Packing {
            mtu: 1500,
            ipv6: false,
            timestamps: true,
        };
        let carries = ethernet.bytes_per_s(bits_per_s);
        let wire = Wire {
            to_here: Some(carries),
            from_here: Some(carries),
            known_from: "the payload of TCP at the link's nominal speed, in frames of 1,500 bytes"
                .to_owned(),
        };
        Self {
            paths: Vec::new(),
            wire: Some(wire),
        }
    }

    /// Describes measured paths, all of which the runs used.
    pub fn measured(paths: Vec<MeasuredPath>) -> Self {
        let ways = ways_out(&paths);
        let carries = |direction| {
            let each = ways.iter().map(|way| way.carries(direction));
            each.sum::<Option<f64>>().filter(|sum| *sum > 0.0)
        };
        let (to_here, from_here) = (carries(Direction::Receive), carries(Direction::Send));
        let known_from = match ways.len() {
            0 | 1 => "as bench network measured it, not the nominal speed of a link".to_owned(),
            count => format!(
                "the sum of {count} paths as bench network measured them one by one, not the nominal speed of links"
            ),
        };
        let is_known = to_here.is_some() || from_here.is_some();
        Self {
            wire: is_known.then_some(Wire {
                to_here,
                from_here,
                known_from,
            }),
            paths,
        }
    }
}

/// Capacity of each direction of the wire, in bytes of payload per second; `None` if it is not
/// known.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// Capacity towards this machine, for reads.
    pub to_here: Option<f64>,
    /// Capacity from this machine, for writes.
    pub from_here: Option<f64>,
    /// Source of this knowledge.
    pub known_from: String,
}

impl Wire {
    /// Returns every value once.
    pub(super) fn values(&self) -> Vec<f64> {
        let mut values: Vec<f64> = self.to_here.into_iter().chain(self.from_here).collect();
        values.dedup();
        values
    }

    /// Describes the values with their directions.
    pub(super) fn words(&self) -> String {
        match (self.to_here, self.from_here) {
            (Some(to_here), Some(from_here)) if to_here == from_here => units::megabytes(to_here),
            (Some(to_here), Some(from_here)) => format!(
                "{} for reads, {} for writes",
                units::megabytes(to_here),
                units::megabytes(from_here)
            ),
            (Some(only), None) => format!("{} for reads", units::megabytes(only)),
            (None, Some(only)) => format!("{} for writes", units::megabytes(only)),
            (None, None) => "not known".to_owned(),
        }
    }
}

/// Way out of the machine, and the paths that share its wire.
#[derive(Debug)]
pub(super) struct WayOut<'a> {
    /// Name of the interface; if the kernel did not tell, of the other end.
    pub(super) name: String,
    host: &'a str,
    /// Paths that leave this way.
    pub(super) paths: Vec<&'a MeasuredPath>,
}

impl WayOut<'_> {
    /// Returns the bytes per second of the path that carried most; the others use the same wire.
    pub(super) fn carries(&self, direction: Direction) -> Option<f64> {
        let carried = self
            .paths
            .iter()
            .map(|path| path.result.survey.carried(direction));
        carried.flatten().reduce(f64::max)
    }
}

/// Lists the ways out of these paths, in the paths' order.
pub(super) fn ways_out(paths: &[MeasuredPath]) -> Vec<WayOut<'_>> {
    let mut ways: Vec<WayOut<'_>> = Vec::new();
    for path in paths {
        let NetworkResult {
            survey, machine, ..
        } = &path.result;
        let name = match &survey.interface {
            Some(interface) => interface.name.clone(),
            None => survey.server.ip().to_string(),
        };
        let host = machine.host.as_str();
        let known = ways
            .iter_mut()
            .find(|way| way.name == name && way.host == host);
        match known {
            Some(way) => way.paths.push(path),
            None => ways.push(WayOut {
                name,
                host,
                paths: vec![path],
            }),
        }
    }
    ways
}
