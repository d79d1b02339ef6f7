//! Labels of one device, as an opening read them.

use pages::Pages;

/// Four label copies of a device, as they were read; a copy is empty if it could not be read.
#[derive(Clone, Debug, Default)]
pub struct LeafLabels {
    /// Bytes of the device.
    pub size: u64,
    /// Copies of the label, of 256 KiB each.
    pub copies: [Pages; 4],
}
