//! End of a SCSI command, with the blocks that it read.

use scsi::{Response, Status};

use crate::timing::Receipt;
use block::Pages;
use block::budget::Reservation;

/// Data-in of a command.
#[derive(Debug)]
pub enum Data {
    /// Blocks, with the memory that they take until they have left.
    Pages(Pages, Option<Reservation>),
    /// Parameter data.
    Bytes(Vec<u8>),
}

/// End of a command.
#[derive(Debug)]
pub struct Ended {
    /// Status of the command.
    pub status: Status,
    /// Sense data, empty unless the status carries any.
    pub sense: Vec<u8>,
    /// Data for the initiator.
    pub data_in: Option<Data>,
    /// Bytes of data-out that the command takes by its CDB, if known: for the residual.
    pub data_out_wanted: Option<u32>,
    /// Record of the command's time so far, for a command that is counted.
    pub receipt: Option<Receipt>,
}

impl Ended {
    /// Makes a GOOD with data.
    #[inline]
    pub fn good(data_in: Option<Data>) -> Self {
        Self {
            status: Status::Good,
            sense: Vec::new(),
            data_in,
            data_out_wanted: None,
            receipt: None,
        }
    }

    /// Adds the receipt of the command.
    #[inline]
    #[must_use]
    pub fn with_receipt(self, receipt: Receipt) -> Self {
        Self {
            receipt: Some(receipt),
            ..self
        }
    }

    /// Adds the bytes of data-out that the command takes by its CDB, if they are known.
    #[must_use]
    pub fn wanting(self, data_out_wanted: Option<u32>) -> Self {
        Self {
            data_out_wanted: data_out_wanted.or(self.data_out_wanted),
            ..self
        }
    }
}

impl From<Response> for Ended {
    fn from(response: Response) -> Self {
        let data_in = (!response.data_in.is_empty()).then_some(Data::Bytes(response.data_in));
        Self {
            status: response.status,
            sense: response.sense,
            data_in,
            data_out_wanted: response.would_move,
            receipt: None,
        }
    }
}
