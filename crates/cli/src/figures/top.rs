//! `top`: live views of adapters, devices, hosts, networks and disks, in esxtop's manner; and
//! `top -b`, the same figures as rows of CSV.
//!
//! | question | file |
//! |---|---|
//! | which columns has a view? | `top/fields.rs` |
//! | which rows, and what do their cells say? | `top/rows.rs` |
//! | which of them are on the screen, in which order? | `top/table.rs` |
//! | what does a key do? | `top/keys.rs`, on the state in `top/screen.rs` |
//! | what is remembered from run to run? | `top/saved.rs` |
//! | where do figures come from? | `top/feed.rs` |
//! | what is on the terminal, and how is it given back? | `top/draw.rs`, `top/tty.rs` |
//! | what does `top -b` write? | `top/batch.rs` |

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use self::rows::Side;
use crate::{Connection, Done, Terminal};
use model::Error;

mod batch;
mod draw;
mod feed;
mod fields;
mod keys;
mod live;
mod rows;
mod saved;
mod screen;
mod table;
mod tty;

/// Seconds between two updates unless the user says otherwise, as in esxtop.
const DELAY: Duration = Duration::from_secs(5);
/// Longest delay in seconds: a day.
const LONGEST_S: f64 = 86_400.0;

#[derive(Debug, Args)]
#[command(
    after_help = "DAVG is the time of a command at the device, KAVG all other time in this machine, QAVG the part \
                  of it in queues, and GAVG all of it. ACTV is the number of commands that run, QUED of those \
                  that wait for their turn. `h` on the screen shows all keys.\n\n\
                  -b writes the CSV of Windows' Performance Monitor, as esxtop -b does: the first row after one \
                  delay, and the columns of what was there at the start. What goes away later counts as 0."
)]
pub(crate) struct Top {
    /// Write rows of CSV instead of showing views
    #[arg(short = 'b', long)]
    batch: bool,
    /// Seconds from update to update, at least 1 [default: 5]
    #[arg(short = 'd', long, value_name = "SECONDS", value_parser = delay)]
    delay: Option<Duration>,
    /// Number of updates, then end
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Show this machine as an initiator: devices of other machines, and their sessions. It is
    /// the default on a machine that serves no units
    #[arg(long)]
    initiator: bool,
    /// File with the saved choice of views and columns [default: sandstone/top.toml in the user's
    /// folder for configuration]
    #[arg(short = 'c', long, value_name = "FILE", conflicts_with = "batch")]
    config: Option<PathBuf>,
}

pub(crate) fn run(args: &Top, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    if args.batch {
        return batch::run(args, connection, t);
    }
    if t.width.is_none() {
        return Err(Error::invalid(
            "top shows its views on a terminal, but the output is a file or a pipe",
            "sandstone top -b writes rows of CSV to files and pipes",
        )
        .into());
    }
    live::run(args, connection)
}

impl Top {
    /// Returns the side that the user asked for; `None` leaves the choice to what is there.
    fn side(&self) -> Option<Side> {
        self.initiator.then_some(Side::Initiator)
    }
}

/// Reads a delay in seconds.
fn delay(text: &str) -> Result<Duration, String> {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let seconds = text.parse::<f64>().ok().filter(|_| is_plain);
    match seconds {
        None => Err(format!("{text:?} is no number of seconds")),
        // The daemon takes one snapshot a second.
        Some(seconds) if seconds < 1.0 => Err("the shortest delay is 1 second".to_owned()),
        Some(seconds) if seconds > LONGEST_S => Err("the longest delay is a day".to_owned()),
        Some(seconds) => Ok(Duration::from_secs_f64(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_at_least_the_time_between_two_snapshots() {
        assert_eq!(delay("2"), Ok(Duration::from_secs(2)));
        assert_eq!(delay("1.5"), Ok(Duration::from_millis(1500)));
        for text in ["0.9", "0", "-1", "1e3", "x", "", "99999999"] {
            assert!(delay(text).is_err(), "{text}");
        }
    }
}
