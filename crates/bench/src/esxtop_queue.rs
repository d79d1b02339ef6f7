//! Load of a measured device's queue in esxtop's columns, so that nobody needs esxtop beside the
//! benchmark.

use serde::{Deserialize, Serialize};

use block::LatencySplit;
use multipath::{load, used_percent};

/// Queue of a device over the measured time, in esxtop's columns: means of readings every few
/// milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EsxtopQueue {
    /// DQLEN: the queue depth at the end.
    pub dqlen: u32,
    /// ACTV: commands at the device.
    pub actv: f64,
    /// QUED: commands that waited.
    pub qued: f64,
    /// %USD: ACTV of DQLEN, in percent.
    pub used_percent: f64,
    /// LOAD: ACTV and QUED over DQLEN.
    pub load: f64,
}

impl EsxtopQueue {
    /// Computes the columns from the numbers of commands at the device and waiting.
    pub fn new(dqlen: u32, actv: f64, qued: f64) -> Self {
        Self {
            dqlen,
            actv,
            qued,
            used_percent: used_percent(actv, dqlen),
            load: load(actv, qued, dqlen),
        }
    }

    /// Computes the columns at the moment of a reading.
    pub fn at(split: LatencySplit) -> Self {
        let (actv, qued) = (f64::from(split.active), f64::from(split.queued));
        Self::new(split.queue_depth, actv, qued)
    }
}

/// Readings of a queue, from which means are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueReadings {
    readings: u64,
    dqlen: u32,
    actv: u64,
    qued: u64,
}

impl QueueReadings {
    /// Adds a reading.
    pub fn add(&mut self, split: LatencySplit) {
        self.readings += 1;
        self.dqlen = split.queue_depth;
        self.actv += u64::from(split.active);
        self.qued += u64::from(split.queued);
    }

    /// Returns the means; `None` if nothing was read.
    pub fn mean(self) -> Option<EsxtopQueue> {
        let mean = |sum: u64| sum as f64 / self.readings as f64;
        (self.readings > 0).then(|| EsxtopQueue::new(self.dqlen, mean(self.actv), mean(self.qued)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_the_mean_of_its_readings() {
        let reading = |active, queued| LatencySplit {
            queue_depth: 64,
            active,
            queued,
            ..LatencySplit::default()
        };
        let mut readings = QueueReadings::default();
        assert_eq!(readings.mean(), None);
        for (active, queued) in [(64, 30), (64, 34), (0, 0), (0, 0)] {
            readings.add(reading(active, queued));
        }
        let expected = EsxtopQueue {
            dqlen: 64,
            actv: 32.0,
            qued: 16.0,
            used_percent: 50.0,
            load: 0.75,
        };
        assert_eq!(readings.mean(), Some(expected));
        assert_eq!(EsxtopQueue::at(reading(64, 32)).load, 1.5);
    }
}
