//! The terminal, taken for the screen and given back on every way out: the end, an error, a panic,
//! a signal, and job control.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Once;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// The terminal while the screen has it. Dropping it gives it back.
///
/// It writes to a descriptor of its own: a thread that panics must not wait for the lock of
/// standard output, which the main thread holds.
#[derive(Debug)]
pub(super) struct Tty {
    /// Terminal as ratatui sees it.
    pub(super) screen: Terminal<CrosstermBackend<File>>,
}

impl Tty {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The terminal refuses. It is as it was before.
    pub(super) fn take() -> io::Result<Self> {
        let tty = Self {
            screen: Terminal::new(CrosstermBackend::new(out()?))?,
        };
        give_back_on_panic();
        enter()?;
        Ok(tty)
    }

    /// Takes the terminal again after it was given back, and draws everything anew.
    ///
    /// # Errors
    /// The terminal refuses.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        enter()?;
        self.screen.clear()
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        give_back();
    }
}

fn out() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    let entered = out().and_then(|mut out| execute!(out, EnterAlternateScreen, EnableMouseCapture));
    if entered.is_err() {
        give_back();
    }
    entered
}

/// Waits for a key, at most this long. Reports whether the terminal hung up, as when its window is
/// closed. Whoever reads events from a terminal that hung up would read without end.
pub(super) fn is_gone(wait: Duration) -> io::Result<bool> {
    let input = io::stdin();
    let mut keys = [PollFd::new(&input, PollFlags::IN)];
    let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
    match rustix::event::poll(&mut keys, Some(&wait)) {
        Ok(_) => {}
        // A signal came first.
        Err(Errno::INTR) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let lost = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    Ok(keys[0].revents().intersects(lost))
}

/// Gives the terminal back. If it cannot be reached any more, nobody is left to be told.
pub(super) fn give_back() {
    if let Ok(mut out) = out() {
        let _ = execute!(out, DisableMouseCapture, LeaveAlternateScreen, Show);
        let _ = out.flush();
    }
    let _ = disable_raw_mode();
}

/// Has a panic give the terminal back before its message is printed.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
    });
}
