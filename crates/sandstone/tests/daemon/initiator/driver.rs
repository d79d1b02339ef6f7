//! Driver of an adapter's device: one request, or many at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use block::lane::Outcome;
use block::{BlockDevice as _, BlockError, Done, Lane, Pages, Request, Submitted, Ticket};
use initiator::adapter::{Adapter, AdapterError};
use initiator::device::MultipathDevice;
use model::initiator::settings::{DeviceSettings, SessionSettings, TargetSettings};
use model::initiator::url::LunUrl;

pub(crate) struct Driver {
    pub(crate) lane: Lane,
    pub(crate) adapter: Arc<Adapter>,
    pub(crate) device: MultipathDevice,
    taken: Vec<(u64, Outcome)>,
}

/// Returns settings with round robin after every I/O, so that all paths are used.
pub(crate) fn round_robin() -> DeviceSettings {
    let every_io = multipath::RoundRobin::default()
        .with_options("iops=1")
        .unwrap();
    DeviceSettings {
        psp: Some((multipath::Psp::RoundRobin, every_io)),
        ..DeviceSettings::default()
    }
}

/// Returns settings with round robin for a target that performs nothing of a session that it has
/// ended.
pub(crate) fn round_robin_without_settling() -> DeviceSettings {
    DeviceSettings {
        fence_settle_us: Some(0),
        ..round_robin()
    }
}

pub(crate) fn target(url: &str) -> TargetSettings {
    let session = SessionSettings::new("iqn.2026-01.io.sandstone:tester");
    LunUrl::parse(url, session, DeviceSettings::default())
        .unwrap()
        .target
}

impl Driver {
    pub(crate) fn open(url: &str) -> Result<Self, AdapterError> {
        Self::open_with(target(url), round_robin())
    }

    pub(crate) fn open_with(
        settings: TargetSettings,
        devices: DeviceSettings,
    ) -> Result<Self, AdapterError> {
        let mut lane = Lane::standing().unwrap();
        let adapter = Adapter::new(&mut lane, devices)?;
        let lun = settings.lun;
        let target = adapter.log_in(settings)?;
        adapter.settle(target, Duration::from_secs(20), &mut lane)?;
        let device = adapter.device(target, lun).unwrap();
        Ok(Self {
            lane,
            adapter,
            device,
            taken: Vec::new(),
        })
    }

    pub(crate) fn submit(&mut self, token: u64, request: Request) {
        match self
            .device
            .submit(request, Ticket::new(token), &mut self.lane)
        {
            Submitted::Pending => {}
            Submitted::Ready(outcome) => self.taken.push((token, outcome)),
        }
    }

    /// Returns completions, at least one.
    pub(crate) fn take(&mut self) -> Vec<(u64, Outcome)> {
        self.lane.submit_batch();
        let mut taken = std::mem::take(&mut self.taken);
        self.lane.take_completions(&mut taken);
        while taken.is_empty() {
            self.lane.wait(None).unwrap();
            self.lane.take_completions(&mut taken);
        }
        taken
    }

    pub(crate) fn run(&mut self, request: Request) -> Outcome {
        self.submit(0, request);
        let mut taken = self.take();
        assert_eq!(taken.len(), 1);
        taken.remove(0).1
    }

    pub(crate) fn write(
        &mut self,
        offset: u64,
        data: &[u8],
        durable: bool,
    ) -> Result<(), BlockError> {
        let data = Pages::from_bytes(data);
        self.run(Request::Write {
            offset,
            data,
            durable,
        })
        .map(|_| ())
    }

    pub(crate) fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        match self.run(Request::Read { offset, len }) {
            Ok(Done::Pages(pages)) => pages.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns completions, as soon as there is one, or none when the time is over.
    pub(crate) fn take_until(&mut self, until: Instant) -> Vec<(u64, Outcome)> {
        let mut taken = Vec::new();
        while taken.is_empty() && Instant::now() < until {
            self.lane.submit_batch();
            self.lane.wait(Some(until)).unwrap();
            self.lane.take_completions(&mut taken);
        }
        taken
    }

    /// Runs the sessions for a time, in which nothing may end.
    pub(crate) fn idle(&mut self, time: Duration) {
        assert!(self.take_until(Instant::now() + time).is_empty());
    }
}
