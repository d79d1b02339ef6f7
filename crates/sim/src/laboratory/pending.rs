//! Operations without an answer, and the effect of an answer on the model.

use std::fmt;

use super::{FailureKind, Report};
use crate::disk::SLICE_SIZE;
use crate::history::History;
use crate::model::{AdminId, ChangeId, Model, Moment, extents};
use crate::operation::VolumeId;
use crate::subject::Outcome;

/// Operation that the model was told about.
#[derive(Debug)]
pub(super) enum Pending {
    Read(VolumeId, u64, u64, Moment),
    Extents(VolumeId, u64, u64, Moment),
    Change {
        change: ChangeId,
        /// Whether the operation may fail in a full pool.
        needs_space: bool,
    },
    Flush(VolumeId, Moment),
    Admin {
        id: AdminId,
        /// Whether nothing else runs beside the operation.
        is_exclusive: bool,
        /// Whether the operation may fail in a full pool.
        needs_space: bool,
    },
}

impl Pending {
    /// Reports whether the operation works in a full pool.
    fn needs_no_space(&self) -> bool {
        match self {
            Self::Read(..) | Self::Extents(..) | Self::Flush(..) => true,
            Self::Change { needs_space, .. } | Self::Admin { needs_space, .. } => !needs_space,
        }
    }

    /// Tells the model the result of the operation `tag`, and judges the returned data.
    ///
    /// # Errors
    /// If the result must not be.
    pub(super) fn answered(
        self,
        tag: u64,
        outcome: Result<Outcome, String>,
        history: &History,
        model: &mut Model,
        report: &mut Report,
    ) -> Result<(), FailureKind> {
        let failed = outcome.as_ref().err().cloned();
        let may_fail =
            history.tolerates_errors && !(history.lacks_only_space && self.needs_no_space());
        match self {
            Self::Read(volume, first, end, moment) => match outcome {
                Ok(Outcome::Data(data)) => {
                    if data.len() as u64 != (end - first) * SLICE_SIZE as u64 {
                        return Err(FailureKind::WrongLength(data.len()));
                    }
                    let judged = model.judge_read(volume, first, &data, moment);
                    judged.map_err(FailureKind::Wrong)?;
                }
                Ok(other) => return Err(FailureKind::NoAnswer(format!("{other:?}"))),
                Err(_) => model.end_read(moment),
            },
            Self::Extents(volume, first, end, moment) => match outcome {
                Ok(Outcome::Extents(runs)) => {
                    report.extents += 1;
                    report.mixed_extents += u64::from(runs.len() > 1);
                    let told = extents::slices(&runs, end - first);
                    let told = told.map_err(FailureKind::NoAnswer)?;
                    let judged = model.judge_extents(volume, first, &told, moment);
                    judged.map_err(FailureKind::Wrong)?;
                }
                Ok(other) => return Err(FailureKind::NoAnswer(format!("{other:?}"))),
                Err(_) => model.end_read(moment),
            },
            Self::Change { change, .. } => {
                model.settle_change(change, failed.is_none());
                let is_kept = history.lacks_only_space && model.has_space_for(change);
                report.kept += u64::from(is_kept);
                if let Some(why) = &failed
                    && model.has_space_for(change)
                {
                    let what = format!("operation {tag}, for which space was kept,");
                    return Err(FailureKind::Failed(what, why.clone()));
                }
            }
            Self::Flush(volume, moment) if failed.is_none() => {
                model.flushed(volume, moment);
            }
            Self::Flush(..) => {}
            Self::Admin { id, .. } => model.settle_admin(id, failed.is_none()),
        }
        let Some(why) = failed else {
            return Ok(());
        };
        report.errors += 1;
        match may_fail {
            true => Ok(()),
            false => Err(FailureKind::Failed(format!("operation {tag}"), why)),
        }
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change { change, .. } => write!(f, "(change {})", change.0),
            Self::Read(..) => f.write_str("(read)"),
            Self::Extents(..) => f.write_str("(extents)"),
            Self::Flush(..) => f.write_str("(flush)"),
            Self::Admin { .. } => f.write_str("(administration)"),
        }
    }
}
