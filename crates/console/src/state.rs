//! State that all pages share.

use std::sync::Arc;

use control::Door;

use super::live::Live;

/// State of the console.
#[derive(Debug)]
pub(crate) struct Console {
    /// Door to the endpoints of the API.
    pub(crate) door: Arc<Door>,
    /// Figures of the last minutes.
    pub(crate) live: Arc<Live>,
    /// Name of this machine, for titles.
    pub(crate) machine: String,
}

impl Console {
    /// Begins to record figures.
    pub(crate) fn new(door: Arc<Door>) -> Arc<Self> {
        let live = Live::start(&door);
        let system = rustix::system::uname();
        Arc::new(Self {
            door,
            live,
            machine: system.nodename().to_string_lossy().into_owned(),
        })
    }
}
