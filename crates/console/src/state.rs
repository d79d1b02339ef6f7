//! State that all pages share.

use std::hash::RandomState;
use std::sync::Arc;

use control::Door;

use model::Error;

use super::live::Live;
use super::visit::Visit;

/// Function from the name of a list and a visit to the numbers of the objects in the window.
pub(crate) type Window = fn(&str, &Visit) -> Result<Vec<String>, Error>;

/// State of the console.
#[derive(Debug)]
pub(crate) struct Console {
    /// Door to the endpoints of the API.
    pub(crate) door: Arc<Door>,
    /// Figures of the last minutes.
    pub(crate) live: Arc<Live>,
    /// Function that returns the numbers of the objects in the window of a list.
    pub(crate) window: Window,
    /// Name of this machine, for titles.
    pub(crate) machine: String,
    /// Keyed digests of secrets that have to be typed twice. Their key is random, and ends with the
    /// daemon.
    pub(crate) digests: RandomState,
}

impl Console {
    /// Begins to record figures. `window` comes from the pages, which know the console.
    pub(crate) fn new(door: Arc<Door>, window: Window) -> Arc<Self> {
        let live = Live::start(&door);
        let system = rustix::system::uname();
        Arc::new(Self {
            door,
            live,
            window,
            machine: system.nodename().to_string_lossy().into_owned(),
            digests: RandomState::new(),
        })
    }
}
