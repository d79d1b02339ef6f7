//! TEST UNIT READY (SPC-4 6.47): the gates have already said all there is to say.

use crate::Start;
use crate::dispatch::Request;
use crate::sense::Sense;

/// GOOD: whatever makes the unit not ready was found before.
pub(crate) fn start(_request: &Request<'_>) -> Result<Start, Sense> {
    Ok(Start::good())
}
