//! How long the configuration may become: a label has a bounded place for it.
//!
//! Paths only name what is missing, so labels go without them where they do not fit. Devices are refused while a quarter of the
//! place is left: what each of them missed needs room as well, and nobody can refuse a disk that fails.

use super::config::PoolConfig;
use super::open::{OpenError, OpenErrorKind};
use super::state::Pool;
use crate::format::Label;
use crate::vdev::{ShapeError, ShapeErrorKind};

/// Bytes of the configuration that may be taken by what a pool is made of.
const MOST: usize = Label::MAX_CONFIG / 4 * 3;
/// Bytes that a device with a slot and a vdev of its own takes at most.
const LEAF: usize = 256;

/// Why there is no room.
const TOO_MANY: &str = "the pool would have more devices than its labels can name; use fewer and larger ones, or make \
                        another pool of them";

impl PoolConfig {
    /// As it lies in labels, without the paths where these make it too long. `None`: it does not fit.
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
    pub(super) fn require_label_room(&self) -> Result<(), OpenError> {
        match self.encode_without_paths().len() <= MOST {
            true => Ok(()),
            false => Err(OpenError::new(OpenErrorKind::NoPool, TOO_MANY)),
        }
    }
}

impl Pool {
    /// Refuses so many more devices where labels could not name them.
    ///
    /// # Errors
    /// They could not.
    pub fn require_label_room(&self, devices: usize) -> Result<(), ShapeError> {
        let now = PoolConfig {
            tree: self.array.tree(),
            ..self.config.clone()
        };
        match now.encode_without_paths().len() + devices * LEAF <= MOST {
            true => Ok(()),
            false => Err(ShapeError::of_tree(ShapeErrorKind::WrongKind, TOO_MANY)),
        }
    }
}
