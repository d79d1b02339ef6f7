//! `volume salvage`: copies the readable parts of a volume that has lost blocks, and lists the
//! others.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::{Connection, Done, Failure, Terminal};
use crate::print::table::json;
use control::endpoint::stream;
use hint::Place;
use model::pool::salvage::{Piece, PieceKind, SalvageRequest, broken};
use model::quantity::format_size;
use model::{Error, ErrorKind};

/// Time between two displays of the progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct Salvage {
    /// Copy into a new volume, of this pool or another, instead of a file
    #[arg(
        long,
        value_name = "VOLUME",
        conflicts_with = "file",
        required_unless_present = "file"
    )]
    to: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Volume or snapshot, as in tank/vm1; it is not changed
    #[arg(add = crate::grammar::completion::dataset_names())]
    name: String,
    /// New file, or a block device, that takes the copy
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Result of a salvage.
#[derive(Debug, Default, Serialize)]
struct Report {
    source: String,
    target: String,
    /// Bytes of the volume, bytes that were copied, and bytes that read as zeros anyway.
    size: u64,
    copied: u64,
    holes: u64,
    lost_bytes: u64,
    /// Ranges that cannot be read, in ascending order.
    lost: Vec<Range>,
}

/// Range of bytes of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Range {
    offset: u64,
    len: u64,
}

/// Reader of the answer, which writes each piece to its place.
struct Taker<'a> {
    report: Report,
    file: Option<Target>,
    /// Bytes of the next piece's header that have come so far.
    header: Vec<u8>,
    /// Bytes of the piece that are still to come, and the offset of the next of them.
    coming: u64,
    at: u64,
    failure: Option<Vec<u8>>,
    is_over: bool,
    progress: Option<(&'a mut dyn Write, Instant)>,
}

/// File of the copy, and whether it has a length of its own.
struct Target {
    file: File,
    path: PathBuf,
    is_device: bool,
}

impl Target {
    fn open(path: &Path) -> Result<Self, Error> {
        let is_device = path
            .metadata()
            .is_ok_and(|of| !of.is_file() && !of.is_dir());
        let opened = match is_device {
            true => OpenOptions::new().write(true).open(path),
            // A file that exists is never written over.
            false => OpenOptions::new().write(true).create_new(true).open(path),
        };
        let file = opened.map_err(|error| {
            let message = format!("{} cannot be opened for the copy: {error}", path.display());
            Error::new(
                ErrorKind::Storage,
                message,
                "name a file that does not exist yet",
            )
            .not_changed("nothing was copied")
        })?;
        Ok(Self {
            file,
            path: path.to_owned(),
            is_device,
        })
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::system(
            Place::File(&self.path),
            format!("write {}", self.path.display()),
            error,
        )
    }

    fn begin(&mut self, size: u64) -> Result<(), Error> {
        if self.is_device {
            let end = self.file.seek(SeekFrom::End(0));
            let end = end.map_err(|error| self.failed(error))?;
            if end < size {
                let message = format!(
                    "{} has {end} bytes, and the volume has {size}",
                    self.path.display()
                );
                return Err(Error::invalid(message, "name a larger device")
                    .not_changed("nothing was copied"));
            }
            return Ok(());
        }
        self.file.set_len(size).map_err(|error| self.failed(error))
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let sought = self.file.seek(SeekFrom::Start(offset));
        let written = sought.and_then(|_| self.file.write_all(bytes));
        written.map_err(|error| self.failed(error))
    }

    /// Makes a range read as zeros. An unwritten range of a new file reads as zeros anyway; a
    /// device must be told.
    fn zeros(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        const PART: u64 = 1 << 20;
        if !self.is_device {
            return Ok(());
        }
        let zeros = vec![0; PART.min(len) as usize];
        let mut at = offset;
        while at < offset + len {
            let part = (offset + len - at).min(PART);
            self.write(at, &zeros[..part as usize])?;
            at += part;
        }
        Ok(())
    }
}

impl Taker<'_> {
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.coming > 0 {
                let (own, rest) = bytes.split_at(bytes.len().min(self.coming as usize));
                match (&mut self.failure, &mut self.file) {
                    (Some(text), _) => text.extend_from_slice(own),
                    (None, Some(file)) => file.write(self.at, own)?,
                    (None, None) => {}
                }
                self.coming -= own.len() as u64;
                self.at += own.len() as u64;
                bytes = rest;
                continue;
            }
            let lacking = Piece::SIZE - self.header.len();
            let (own, rest) = bytes.split_at(bytes.len().min(lacking));
            self.header.extend_from_slice(own);
            bytes = rest;
            if let Some(header) = self.header.first_chunk::<{ Piece::SIZE }>() {
                let piece = Piece::decode(header)
                    .ok_or_else(|| broken("the daemon sent an unknown message"))?;
                self.header.clear();
                self.begin_piece(piece)?;
            }
        }
        Ok(())
    }

    fn begin_piece(&mut self, piece: Piece) -> Result<(), Error> {
        let Piece { kind, offset, len } = piece;
        self.at = offset;
        let report = &mut self.report;
        match kind {
            PieceKind::Size => {
                report.size = len;
                if let Some(file) = &mut self.file {
                    file.begin(len)?;
                }
            }
            PieceKind::Data => {
                report.copied += len;
                self.coming = if self.file.is_some() { len } else { 0 };
            }
            PieceKind::Hole | PieceKind::Lost => {
                if kind == PieceKind::Hole {
                    report.holes += len;
                } else {
                    report.lost_bytes += len;
                    match report.lost.last_mut() {
                        Some(last) if last.offset + last.len == offset => last.len += len,
                        _ => report.lost.push(Range { offset, len }),
                    }
                }
                if let Some(file) = &mut self.file {
                    file.zeros(offset, len)?;
                }
            }
            PieceKind::End => self.is_over = true,
            PieceKind::Failed => {
                self.failure = Some(Vec::new());
                self.coming = len;
            }
        }
        self.show(offset);
        Ok(())
    }

    /// Shows the progress, now and then.
    fn show(&mut self, at: u64) {
        let Report {
            size, lost_bytes, ..
        } = self.report;
        let Some((err, shown)) = &mut self.progress else {
            return;
        };
        if shown.elapsed() >= PROGRESS_EVERY && size > 0 {
            *shown = Instant::now();
            let percent = u128::from(at) * 100 / u128::from(size);
            let lost = format_size(lost_bytes);
            // The reader may have gone.
            let _ = write!(
                err,
                "\r{percent:>3} % of {}, {lost} cannot be read ",
                format_size(size)
            );
            let _ = err.flush();
        }
    }
}

pub(super) fn salvage(args: &Salvage, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let request = SalvageRequest {
        name: args.name.clone(),
        to: args.to.clone(),
    };
    let target = match (&args.to, &args.file) {
        (Some(volume), _) => volume.clone(),
        (None, file) => file
            .as_ref()
            .map_or_else(String::new, |of| of.display().to_string()),
    };
    let file = args.file.as_deref().map(Target::open).transpose()?;
    let is_seen = std::io::stderr().is_terminal();
    let mut taker = Taker {
        report: Report {
            source: args.name.clone(),
            target,
            ..Report::default()
        },
        file,
        header: Vec::new(),
        coming: 0,
        at: 0,
        failure: None,
        is_over: false,
        progress: is_seen.then(|| (&mut *t.err as &mut dyn Write, Instant::now())),
    };
    let client = connection.client();
    client.download(&stream::SALVAGE, &request, &mut |bytes| taker.take(bytes))?;
    if let Some(file) = &taker.file {
        file.file.sync_all().map_err(|error| file.failed(error))?;
    }
    let Taker {
        report,
        failure,
        is_over,
        ..
    } = taker;
    if is_seen {
        writeln!(t.err)?;
    }
    if let Some(why) = failure {
        return Err(broken(&String::from_utf8_lossy(&why)).into());
    }
    if !is_over {
        return Err(broken("the daemon ended during the copy").into());
    }
    match args.json {
        true => json(t, &report)?,
        false => tell(&report, t)?,
    }
    match report.lost.is_empty() {
        true => Ok(()),
        false => Err(Failure::Said),
    }
}

fn tell(report: &Report, t: &mut Terminal<'_>) -> Done {
    let Report {
        source,
        target,
        size,
        copied,
        ..
    } = report;
    writeln!(
        t.out,
        "{source} was copied to {target}: {copied} of {size} bytes hold data ({} of {})",
        format_size(*copied),
        format_size(*size)
    )?;
    if report.lost.is_empty() {
        return Ok(writeln!(t.out, "all of it could be read")?);
    }
    writeln!(
        t.out,
        "{} bytes ({}) cannot be read, and are zeros in the copy:",
        report.lost_bytes,
        format_size(report.lost_bytes)
    )?;
    for Range { offset, len } in &report.lost {
        let last = offset + len.saturating_sub(1);
        writeln!(t.out, "  bytes {offset} to {last} ({})", format_size(*len))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taker() -> Taker<'static> {
        Taker {
            report: Report::default(),
            file: None,
            header: Vec::new(),
            coming: 0,
            at: 0,
            failure: None,
            is_over: false,
            progress: None,
        }
    }

    #[test]
    fn an_answer_is_understood_however_it_is_cut() {
        let piece = |kind, offset, len| Piece { kind, offset, len }.encode();
        let answer = [
            piece(PieceKind::Size, 0, 100),
            piece(PieceKind::Hole, 0, 10),
            piece(PieceKind::Data, 10, 30),
            piece(PieceKind::Lost, 40, 20),
            piece(PieceKind::Lost, 60, 20),
            piece(PieceKind::Data, 80, 20),
            piece(PieceKind::End, 0, 100),
        ]
        .concat();
        for part in 1..answer.len() {
            let mut taker = taker();
            answer
                .chunks(part)
                .for_each(|bytes| taker.take(bytes).expect("understood"));
            assert!(taker.is_over);
            let report = &taker.report;
            assert_eq!((report.size, report.copied, report.holes), (100, 50, 10));
            assert_eq!(
                report.lost,
                [Range {
                    offset: 40,
                    len: 40
                }]
            );
            assert_eq!(report.lost_bytes, 40);
        }
    }

    #[test]
    fn a_copy_that_ended_early_says_why() {
        let mut taker = taker();
        let why = b"the pool is suspended";
        let last = Piece {
            kind: PieceKind::Failed,
            offset: 5,
            len: why.len() as u64,
        };
        taker.take(&last.encode()).expect("understood");
        taker.take(why).expect("understood");
        assert_eq!(taker.failure.as_deref(), Some(&why[..]));
        assert!(!taker.is_over);
    }
}
