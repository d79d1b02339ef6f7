//! Facts that backends tell besides answers to requests: the space of thin units, and the wishes of
//! the device's administrator (write cache, write protection).

use scsi::medium::thin_provisioning::Space;

use super::unit::Unit;

impl Unit {
    /// Reports whether the backend may tell something new, so that someone must look.
    pub fn is_watched(&self) -> bool {
        !self.logical.stands_in() && (self.logical.is_thin() || self.device.durability().is_some())
    }

    /// Looks at the space that the backend tells, and at what its administrator decided. May block.
    pub fn look_at_space(&self) {
        let usage = match self.device.usage() {
            Ok(usage) => usage,
            Err(error) => {
                tracing::debug!(unit = self.name, %error, "the backend does not report its space");
                return;
            }
        };
        self.follow_device();
        let Some(pool) = usage.pool.filter(|_| self.logical.is_thin()) else {
            return;
        };
        let reached = self.logical.note_space(Space {
            available: self.blocks(pool.available),
            used: self.blocks(usage.allocated),
            capacity: self.blocks(pool.capacity),
        });
        if reached {
            tracing::warn!(
                unit = self.name,
                available_bytes = pool.available,
                capacity_bytes = pool.capacity,
                "the thin-provisioning soft threshold is reached; initiators are notified"
            );
        }
    }
}
