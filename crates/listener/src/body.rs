//! Bodies: those of requests that are read whole, and those of answers, whose end is noticed.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use hyper::body::{Frame, SizeHint};
use tokio::time::timeout;

use super::places::Sending;

/// Reason why a body could not be read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFault {
    /// Body of more bytes than there may be, or a broken connection.
    Unreadable {
        /// Most bytes.
        most: usize,
    },
    /// Body that did not arrive in time.
    Slow {
        /// Longest time.
        within: Duration,
    },
}

impl fmt::Display for BodyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { most } if most % (1 << 20) == 0 => {
                write!(f, "it has more than {} MiB, or did not arrive", most >> 20)
            }
            Self::Unreadable { most } => {
                write!(f, "it has more than {} KiB, or did not arrive", most >> 10)
            }
            Self::Slow { within } => {
                write!(f, "it did not arrive within {} s", within.as_secs())
            }
        }
    }
}

/// Reads a body whole. It has a bound in length and in time.
///
/// # Errors
/// It is too long, too slow, or broken.
pub async fn read_whole(body: Body, most: usize, within: Duration) -> Result<Bytes, BodyFault> {
    // A length that the head tells is judged before anything is read.
    if hyper::body::Body::size_hint(&body).lower() > most as u64 {
        return Err(BodyFault::Unreadable { most });
    }
    match timeout(within, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(BodyFault::Unreadable { most }),
        Err(_) => Err(BodyFault::Slow { within }),
    }
}

/// Body of an answer. Each look for its next piece shows that the peer has room.
pub(crate) struct Counted {
    pub(crate) body: Body,
    pub(crate) sending: Sending,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.sending.goes_on();
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
