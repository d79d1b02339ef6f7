//! Units that could not be served are tried by a thread, and by an import of a pool or a change of
//! a volume.
//!
//! Two tries at once must not serve a unit twice. The second instance would know nothing of the
//! state of the first (reservations, commands under way).

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use block::memory::MemoryDevice;
use model::data_plane::DataPlane;
use target::DeviceLayer;

use crate::losses::kill::settings;
use crate::losses::late_write::BLOCK;
use crate::rig::process::{file_unit, free_portal};
use crate::rig::served::{Served, limits};
use crate::rig::session::PipelinedSession;

/// Number of openings of the unit, and whether the first one may go on.
#[derive(Default)]
struct Openings {
    state: Mutex<(u32, bool)>,
    changed: Condvar,
}

impl Openings {
    /// Counts one opening; the first waits until it is let go.
    fn note(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        if state.0 == 1 {
            drop(self.changed.wait_while(state, |state| !state.1).unwrap());
        }
    }

    fn wait_for_the_first(&self) {
        let state = self.state.lock().unwrap();
        drop(
            self.changed
                .wait_while(state, |state| state.0 == 0)
                .unwrap(),
        );
    }

    /// Gives others time to open it, too, and lets the first go on.
    fn let_go(&self) {
        let state = self.state.lock().unwrap();
        let time = Duration::from_millis(500);
        let waited = self
            .changed
            .wait_timeout_while(state, time, |state| state.0 < 2);
        waited.unwrap().0.1 = true;
        self.changed.notify_all();
    }

    fn count(&self) -> u32 {
        self.state.lock().unwrap().0
    }
}

#[test]
fn two_who_look_at_once_open_a_unit_once() {
    let portal = free_portal();
    let openings = Arc::new(Openings::default());
    let counted = openings.clone();
    // Not the file itself: it is locked while one has it, and volumes of pools are not.
    let layer = DeviceLayer::new(move |_, _| {
        counted.note();
        Arc::new(MemoryDevice::new(8 * BLOCK as u64, BLOCK as u32, 1 << 20).unwrap())
    });
    let units = vec![file_unit(0, 8, BLOCK as u32, true)];
    let served = Served::start_with(&[portal], units, layer, limits());
    assert_eq!(openings.count(), 0, "its file is missing");
    let folder = served.folder().join("volumes");
    std::fs::create_dir_all(&folder).unwrap();
    let file = std::fs::File::create(folder.join("unit-0.img")).unwrap();
    file.set_len(8 * BLOCK as u64).unwrap();
    let tries = [(); 2].map(|()| {
        let service = served.service();
        std::thread::spawn(move || DataPlane::try_again(&*service))
    });
    openings.wait_for_the_first();
    openings.let_go();
    for one in tries {
        one.join().unwrap();
    }
    assert_eq!(
        openings.count(),
        1,
        "the second takes the place of the first"
    );
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(0);
    session.cut();
    served.stop();
}
