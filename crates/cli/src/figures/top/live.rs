//! The loop of the live screen: events of the terminal, signals, figures, drawing.

use std::io;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use ratatui::crossterm::event;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use hint::Place;
use model::Error;

use super::feed::{self, Feed, Order};
use super::keys::Effect;
use super::saved::{self, Saved};
use super::screen::Screen;
use super::tty::{self, Tty};
use super::{Top, draw};
use crate::{Connection, Done, Failure};

/// Longest wait for a key before figures and signals are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the views until the user ends them.
pub(super) fn run(args: &Top, connection: &Connection) -> Done {
    let mut screen = begin(args)?;
    // SIGHUP ends the program by itself: there is no terminal left to be given back.
    let mut signals =
        Signals::new([SIGTSTP, SIGCONT, SIGTERM, SIGINT, SIGQUIT]).map_err(unusable)?;
    let feed = feed::start(connection, screen.pace()).map_err(unusable)?;
    let mut tty = Tty::take().map_err(unusable)?;
    let ended = follow(args, &mut screen, &mut tty, &feed, &mut signals);
    drop(tty);
    match ended {
        Ok(None) => Ok(()),
        Ok(Some(signal)) => {
            // The shell learns that the signal ended the program.
            low_level::emulate_default_handler(signal).map_err(unusable)
        }
        Err(error) => Err(Failure::from(error)),
    }
}

/// Returns the screen at the start, by the saved choice.
fn begin(args: &Top) -> Result<Screen, Error> {
    let file = args.config.clone().or_else(saved::default_file);
    let read = file.as_deref().map(saved::read).transpose();
    let (saved, message) = match read {
        Ok(saved) => (saved.flatten(), None),
        // A file that was named must be right; another one must not keep the views away.
        Err(error) if args.config.is_some() => return Err(error),
        Err(error) => (None, Some(error.message)),
    };
    if let (Some(file), None, None) = (&args.config, &saved, &message) {
        return Err(Error::not_found(
            format!("there is no file {}", file.display()),
            "W saves a choice of views and columns in a file",
        ));
    }
    let saved = saved.unwrap_or_else(Saved::default);
    let mut screen = Screen::new(&saved, args.delay, args.side());
    (screen.file, screen.message) = (file, message);
    Ok(screen)
}

fn unusable(error: io::Error) -> Failure {
    Error::system(Place::Process, "use the terminal", error).into()
}

/// Follows keys, signals and figures. Returns the signal that ended the program, if one did.
fn follow(
    args: &Top,
    screen: &mut Screen,
    tty: &mut Tty,
    feed: &Feed,
    signals: &mut Signals,
) -> Result<Option<i32>, Error> {
    let failed = |error| Error::system(Place::Output, "use the terminal", error);
    let mut pace = screen.pace();
    let mut heard = Instant::now();
    loop {
        screen.overdue = heard.elapsed().saturating_sub(pace);
        tty.screen
            .draw(|frame| draw::draw(frame, screen))
            .map_err(failed)?;
        if tty::is_gone(LOOK).map_err(failed)? {
            return Ok(Some(SIGHUP));
        }
        let is_ready = match event::poll(Duration::ZERO) {
            Ok(is_ready) => is_ready,
            // A signal came first.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
            Err(error) => return Err(failed(error)),
        };
        let effect = match is_ready {
            true => screen.event(&event::read().map_err(failed)?),
            false => Effect::None,
        };
        match effect {
            Effect::None => {}
            Effect::Quit => return Ok(None),
            Effect::Suspend => suspend(tty).map_err(failed)?,
            // A feed that has ended is noticed below.
            Effect::Refresh => drop(feed.orders.send(Order::Now)),
        }
        for signal in signals.pending() {
            match signal {
                SIGTSTP => suspend(tty).map_err(failed)?,
                SIGCONT => tty.take_again().map_err(failed)?,
                signal => return Ok(Some(signal)),
            }
        }
        loop {
            match feed.samples.try_recv() {
                Ok(sample) => {
                    heard = Instant::now();
                    screen.take(sample);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    return Err(Error::invalid(
                        "the part of top that asks for figures has ended",
                        "report this as a defect",
                    ));
                }
            }
        }
        if args.count.is_some_and(|count| screen.updates >= count) {
            return Ok(None);
        }
        if screen.pace() != pace {
            pace = screen.pace();
            let _ = feed.orders.send(Order::Pace(pace));
        }
    }
}

/// Gives the terminal back, stops as the shell expects it, and takes the terminal again afterwards.
fn suspend(tty: &mut Tty) -> io::Result<()> {
    tty::give_back();
    low_level::emulate_default_handler(SIGTSTP)?;
    tty.take_again()
}
