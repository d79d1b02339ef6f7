//! Host of one device for tests: reports events to the device, and collects its actions.

use scsi::application_client::target_port_groups::AccessState;

use super::super::*;

pub(super) const READ: Direction = Direction::Read;
pub(super) const WRITE: Direction = Direction::Write;

/// A device with its clock, and the actions that were not read yet.
pub(super) struct Host {
    pub(super) device: Device,
    pub(super) now_us: u64,
    pub(super) out: Actions,
}

pub(super) fn identity(number: u32) -> PathIdentity {
    PathIdentity {
        vendor: "SUN".to_owned(),
        model: "COMSTAR".to_owned(),
        revision: "1.0".to_owned(),
        tpgs: 3,
        target_port_group: number as u16,
        relative_port: number as u16 + 1,
        runtime_name: format!("vmhba64:C{number}:T0:L4"),
        initiator: format!("iqn.1998-01.com.vmware:macm-00023d00000{number}"),
        target: "iqn.2010-09.org.napp-it:zfs,t,1".to_owned(),
    }
}

impl Host {
    /// Creates a device of type ALUA with this number of paths, all up and active/optimized, each
    /// in a group of its own.
    pub(super) fn new(paths: u32, settings: Settings) -> Self {
        let mut host = Self {
            device: Device::new("naa.600144f009d4d236000056918f920002", settings),
            now_us: 1_000_000,
            out: Actions::new(),
        };
        for number in 0..paths {
            host.device.add_path(PathId(number), identity(number));
        }
        for number in 0..paths {
            host.up(number);
        }
        host.out.clear();
        host
    }

    pub(super) fn with_psp(paths: u32, psp: Psp) -> Self {
        Self::new(paths, settings(psp))
    }

    pub(super) fn up(&mut self, path: u32) {
        self.device
            .path_up(PathId(path), self.now_us, &mut self.out);
    }

    pub(super) fn suspect(&mut self, path: u32) {
        self.device
            .path_suspect(PathId(path), self.now_us, &mut self.out);
    }

    pub(super) fn dead(&mut self, path: u32) {
        self.device
            .path_dead(PathId(path), self.now_us, &mut self.out);
    }

    pub(super) fn fenced(&mut self, path: u32) {
        self.device
            .path_fenced(PathId(path), self.now_us, &mut self.out);
    }

    pub(super) fn alua(&mut self, path: u32, state: AccessState) {
        self.device
            .alua_state(PathId(path), state, self.now_us, &mut self.out);
    }

    /// Submits a 4 KiB I/O at this block.
    pub(super) fn submit(&mut self, io: u32, direction: Direction, block: u64) {
        self.submit_shape(io, direction, block, false);
    }

    /// Submits a 4 KiB I/O at this block, whose success promises durability.
    pub(super) fn submit_durable(&mut self, io: u32, direction: Direction, block: u64) {
        self.submit_shape(io, direction, block, true);
    }

    fn submit_shape(&mut self, io: u32, direction: Direction, block: u64, durable: bool) {
        let shape = IoShape {
            direction,
            bytes: 4096,
            range: Some((block, 1)),
            durable,
        };
        self.device
            .submit(IoId(io), shape, self.now_us, &mut self.out);
    }

    pub(super) fn ended(&mut self, io: u32, path: u32, how: Ended) {
        let (io, path) = (IoId(io), PathId(path));
        self.device.ended(io, path, how, self.now_us, &mut self.out);
    }

    pub(super) fn pass(&mut self, us: u64) {
        self.now_us += us;
        self.device.tick(self.now_us, &mut self.out);
    }

    /// Returns the actions since the last call.
    pub(super) fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out)
    }

    /// Returns the I/Os sent since the last call, each with its path. No other actions are allowed.
    pub(super) fn sent(&mut self) -> Vec<(u32, u32)> {
        let sent = |action| match action {
            Action::Send { io, path } => (io.0, path.0),
            other => panic!("not a Send: {other:?}"),
        };
        self.actions().into_iter().map(sent).collect()
    }

    /// Returns the path that an I/O takes if it is submitted now and answered at once.
    pub(super) fn path_of_next(&mut self) -> u32 {
        self.out.clear();
        self.submit(999, READ, 0);
        let [(999, path)] = self.sent()[..] else {
            panic!("was not sent");
        };
        self.ended(999, path, Ended::Good);
        self.out.clear();
        path
    }
}

/// Returns settings for a target that has ended a session's tasks by the time it says so.
pub(super) fn settings(psp: Psp) -> Settings {
    Settings {
        satp: Satp::Alua,
        psp,
        fence_settle_us: 0,
        ..Settings::default()
    }
}

pub(super) fn send(io: u32, path: u32) -> Action {
    Action::Send {
        io: IoId(io),
        path: PathId(path),
    }
}

pub(super) fn good(io: u32) -> Action {
    Action::Finish {
        io: IoId(io),
        outcome: Outcome::Good,
    }
}

pub(super) fn failed(io: u32, failure: Failure) -> Action {
    Action::Finish {
        io: IoId(io),
        outcome: Outcome::Failed(failure),
    }
}

pub(super) fn probe(path: u32) -> Action {
    Action::Probe { path: PathId(path) }
}
