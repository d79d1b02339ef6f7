//! Bounds the length of the configuration, since a label has limited room for it.
//!
//! Labels omit the paths if these do not fit, since paths only help to name missing devices.
//! More devices are refused when only a quarter of the room is left. What each device missed needs
//! room as well, and nobody can refuse a disk that fails.

use crate::engine::config::PoolConfig;
use crate::engine::open::error::{OpenError, OpenErrorKind};
use crate::engine::state::Pool;
use crate::format::Label;
use crate::vdev::{ShapeError, ShapeErrorKind};

/// Most bytes of the configuration that the pool's devices may take.
const MOST: usize = Label::MAX_CONFIG / 4 * 3;
/// Most bytes that a device takes that has a slot and a vdev of its own.
const LEAF: usize = 256;

/// Error text for a pool of too many devices.
const TOO_MANY: &str = "the pool would have more devices than its labels can list; use fewer and larger \
                        devices, or make another pool of them";

impl PoolConfig {
    /// Encodes the configuration for labels, without the paths if it is too long with them. `None`
    /// if it does not fit.
    pub fn encode_for_label(&self) -> Option<Vec<u8>> {
        let is_short = |encoded: &Vec<u8>| encoded.len() <= Label::MAX_CONFIG;
        Some(self.encode())
            .filter(is_short)
            .or_else(|| Some(self.encode_without_paths()).filter(is_short))
    }

    fn encode_without_paths(&self) -> Vec<u8> {
        let bare = Self {
            paths: Default::default(),
            ..self.clone()
        };
        bare.encode()
    }

    /// Refuses a pool of more devices than labels can name.
    pub(in crate::engine) fn require_label_room(&self) -> Result<(), OpenError> {
        match self.encode_without_paths().len() <= MOST {
            true => Ok(()),
            false => Err(OpenError::new(OpenErrorKind::NoPool, TOO_MANY)),
        }
    }
}

impl Pool {
    /// Refuses `devices` more devices if labels could not name them.
    ///
    /// # Errors
    /// The labels have no room for them.
    pub fn require_label_room(&self, devices: usize) -> Result<(), ShapeError> {
        let now = PoolConfig {
            tree: self.vdev_tree(),
            ..self.config().clone()
        };
        match now.encode_without_paths().len() + devices * LEAF <= MOST {
            true => Ok(()),
            false => Err(ShapeError::of_tree(ShapeErrorKind::WrongKind, TOO_MANY)),
        }
    }
}
