//! TEST UNIT READY (SPC-4 6.47): the gates have already checked everything.

use crate::Start;
use crate::command_descriptor::Request;
use crate::sense::Sense;

/// Answers GOOD: the gates have already found every reason to be not ready.
pub(crate) fn start(_request: &Request<'_>) -> Result<Start, Sense> {
    Ok(Start::good())
}
