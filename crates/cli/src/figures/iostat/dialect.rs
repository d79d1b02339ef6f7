//! Choice of the form in which `iostat` reports: its own, sysstat's, Solaris'.
//!
//! The letters tell the dialect. `-x` alone is sysstat's, as most people type it today; `-n`, `-M`
//! and `-r` are Solaris', and `--solaris` asks for its plain `-x`.

use super::{Iostat, solaris, sysstat};
use crate::{Done, Terminal};
use model::Error;

/// Value of `-o` that asks for sysstat's JSON.
const JSON: &str = "JSON";

/// Form of the reports.
#[derive(Clone, Copy, Debug)]
pub(super) enum Dialect {
    /// Tables of this program.
    Own,
    /// `iostat -x` of Solaris.
    Solaris(solaris::Layout),
    /// `iostat -x` of sysstat.
    Sysstat(sysstat::Layout),
}

impl Dialect {
    /// Writes what comes before the first report.
    pub(super) fn begin(self, t: &mut Terminal<'_>) -> Done {
        match self {
            Self::Sysstat(layout) => Ok(write!(t.out, "{}", layout.begin())?),
            Self::Own | Self::Solaris(_) => Ok(()),
        }
    }

    /// Writes what comes after the last report.
    pub(super) fn end(self, t: &mut Terminal<'_>) -> Done {
        match self {
            Self::Sysstat(layout) => Ok(write!(t.out, "{}", layout.end())?),
            Self::Own | Self::Solaris(_) => Ok(()),
        }
    }
}

impl Iostat {
    /// Returns the dialect that the options ask for.
    ///
    /// # Errors
    /// The options do not fit together.
    pub(super) fn dialect(&self) -> Result<Dialect, Error> {
        let columns = self.list.named_columns();
        let json = columns == [JSON];
        let is_solaris = self.solaris || self.names_last || self.solaris_megabytes || self.raw;
        let refuse = |message: &str, next: &str| Err(Error::invalid(message, next));
        if !self.extended {
            return match json {
                true => refuse(
                    "-o JSON is a form of the extended statistics",
                    "sandstone iostat -x -o JSON, or --json for this program's own form",
                ),
                false if self.disks && self.sessions => refuse(
                    "disks have no sessions",
                    "omit -s or --disks; sandstone iostat -x -s --disks has few columns",
                ),
                false => Ok(Dialect::Own),
            };
        }
        if self.list.json {
            return refuse(
                "--json has a form of its own, without -x",
                "sandstone iostat -x -o JSON has sysstat's keys",
            );
        }
        if !columns.is_empty() && !json {
            return refuse(
                "the columns of -x are fixed",
                "omit -o or -x; -x -o JSON has sysstat's keys",
            );
        }
        match is_solaris {
            true if json || self.sessions => refuse(
                "Solaris has neither -o JSON nor -s",
                "omit -n, -M, -r and --solaris for sysstat's form",
            ),
            true => Ok(Dialect::Solaris(solaris::Layout {
                names_last: self.names_last,
                megabytes: self.solaris_megabytes,
                raw: self.raw,
            })),
            false => Ok(Dialect::Sysstat(sysstat::Layout {
                megabytes: self.megabytes,
                short: self.sessions,
                json,
                has_rare: !self.disks,
            })),
        }
    }
}
