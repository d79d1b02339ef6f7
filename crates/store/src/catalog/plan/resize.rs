//! Plans to grow and shrink volumes.

use super::request::Resize;
use crate::catalog::Catalog;
use crate::catalog::error::{CatalogError, ErrorKind};
use crate::catalog::operation::Operation;
use crate::catalog::size::print_size_exactly;
use crate::format::DatasetId;

impl Catalog {
    /// Plans to give a volume another size. A thick volume stays thick: its refreservation goes
    /// with its size.
    ///
    /// # Errors
    /// NotFound; InvalidValue for a size that is no multiple of volblocksize, and for a smaller
    /// size that the request does not allow.
    pub fn plan_resize(&self, request: &Resize) -> Result<Operation, CatalogError> {
        let volume = self.find_volume(&request.name)?;
        let before = volume.geometry().map_or(0, |(size, _)| size);
        let operation = self.planned(Operation::Resize {
            volume: volume.id,
            size: request.size,
            refreservation: self.adapted_reservation(volume.id, request.size),
        })?;
        if request.size < before && !request.may_shrink {
            return Err(CatalogError::new(
                ErrorKind::InvalidValue,
                format!(
                    "'{}' would shrink from {} to {}, and the data beyond the new end would be lost",
                    self.full_name(volume.id),
                    print_size_exactly(before),
                    print_size_exactly(request.size)
                ),
                "take a snapshot first, then resize again with --shrink",
            ));
        }
        Ok(operation)
    }

    /// Returns the refreservation for a new volsize. A reservation of the whole volume stays one of
    /// the whole volume, and it never exceeds the volume. Returns `None` if it stays.
    pub(super) fn adapted_reservation(&self, volume: DatasetId, size: u64) -> Option<u64> {
        let before = self.dataset(volume)?.geometry()?.0;
        let reserved = self.settings(volume).refreservation;
        let is_thick = reserved > 0 && reserved == before;
        let adapted = match is_thick {
            true => size,
            false => reserved.min(size),
        };
        (adapted != reserved).then_some(adapted)
    }
}
