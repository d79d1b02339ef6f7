//! State of the screen: the view, its order and columns, what is typed, and the latest figures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use model::{Error, date};

use super::fields::View;
use super::rows::{Row, Sample, Side, rows};
use super::saved::{Layout, Saved, SavedView};
use super::table::{Form, Table};

/// Most characters of names unless the user says otherwise.
const NAME_WIDTH: u16 = 28;

/// Rows that show what is beneath them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Opened {
    /// Rows that are not as their view shows them by itself.
    turned: BTreeSet<(View, String)>,
    /// Rows that show their paths.
    paths: BTreeSet<(View, String)>,
}

impl Opened {
    /// Reports whether a row shows the rows beneath it.
    pub(super) fn shows_children(&self, view: View, key: &str) -> bool {
        let is_turned = !self.turned.is_empty() && self.turned.contains(&(view, key.to_owned()));
        view.opens_rows() != is_turned
    }

    /// Reports whether a row shows its paths.
    pub(super) fn shows_paths(&self, view: View, key: &str) -> bool {
        !self.paths.is_empty() && self.paths.contains(&(view, key.to_owned()))
    }

    /// Reports whether any row of a view was opened by the user.
    pub(super) fn any(&self, view: View) -> bool {
        let places = self.turned.iter().chain(&self.paths);
        places.into_iter().any(|(of, _)| *of == view)
    }

    /// Opens a row, or closes it.
    pub(super) fn turn(&mut self, view: View, key: &str) {
        let place = (view, key.to_owned());
        self.paths.remove(&place);
        if !self.turned.remove(&place) {
            self.turned.insert(place);
        }
    }

    /// Shows the paths of a row, or hides them.
    pub(super) fn turn_paths(&mut self, view: View, key: &str) {
        let place = (view, key.to_owned());
        if self.paths.remove(&place) {
            return;
        }
        if self.shows_children(view, key) && !view.opens_rows() {
            self.turn(view, key);
        }
        self.paths.insert(place);
    }
}

/// Question at which the user types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// `s`: seconds from update to update.
    Delay,
    /// `L`: most characters of names.
    Width,
    /// `/`: text that rows must have.
    Filter,
    /// `W`: file for the choice.
    File,
}

/// Part of the screen that keys go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Focus {
    /// The table.
    #[default]
    Table,
    /// A question, with what is typed so far.
    Question(Question, String),
    /// The list of columns, to show and hide them.
    Fields,
    /// The list of columns, to put them into another order.
    Order,
    /// The help, from this line on.
    Help(u16),
}

/// State of the screen.
#[derive(Debug)]
pub(super) struct Screen {
    /// View that is shown.
    pub(super) view: View,
    /// Side of the wire; `None` until figures tell it.
    pub(super) side: Option<Side>,
    /// Time from update to update.
    pub(super) delay: Duration,
    /// Most characters of names.
    pub(super) name_width: u16,
    /// Whether quantiles are shown.
    pub(super) quantiles: bool,
    /// Text that rows must have.
    pub(super) filter: String,
    /// Rows that show what is beneath them.
    pub(super) opened: Opened,
    /// Whether the figures stand still.
    pub(super) is_frozen: bool,
    /// Part of the screen that keys go to.
    pub(super) focus: Focus,
    /// Remark that the next key removes.
    pub(super) message: Option<String>,
    /// Reason for which there are no newer figures.
    pub(super) trouble: Option<String>,
    /// Time for which figures are overdue.
    pub(super) overdue: Duration,
    /// File in which `W` saves.
    pub(super) file: Option<PathBuf>,
    /// Line of the table that is selected.
    pub(super) selected: usize,
    /// First line of the table on the screen.
    pub(super) first: usize,
    /// Lines of the table for which the screen has room.
    pub(super) room: usize,
    /// Number of updates that were shown.
    pub(super) updates: u64,
    /// Table as it was drawn last.
    pub(super) table: Table,
    layouts: BTreeMap<View, Layout>,
    earlier: Option<Sample>,
    shown: Option<(Sample, Sample)>,
}

impl Screen {
    /// Makes the screen of a saved choice.
    pub(super) fn new(saved: &Saved, delay: Option<Duration>, side: Option<Side>) -> Self {
        let layout = |view: View| match saved.views.get(view.name()) {
            Some(saved) => saved.layout(view),
            None => Layout::of(view),
        };
        let seconds = saved
            .delay
            .filter(|seconds| (1.0..=super::LONGEST_S).contains(seconds));
        let saved_delay = seconds.map_or(super::DELAY, Duration::from_secs_f64);
        Self {
            view: saved.view,
            side,
            delay: delay.unwrap_or(saved_delay),
            name_width: saved.name_width.unwrap_or(NAME_WIDTH),
            quantiles: saved.quantiles,
            filter: String::new(),
            opened: Opened::default(),
            is_frozen: false,
            focus: Focus::Table,
            message: None,
            trouble: None,
            overdue: Duration::ZERO,
            file: None,
            selected: 0,
            first: 0,
            room: 1,
            updates: 0,
            table: Table::default(),
            layouts: View::ALL
                .into_iter()
                .map(|view| (view, layout(view)))
                .collect(),
            earlier: None,
            shown: None,
        }
    }

    /// Returns what `W` saves.
    pub(super) fn saved(&self) -> Saved {
        let views = self.layouts.iter();
        let views = views.filter(|(view, layout)| **layout != Layout::of(**view));
        let views =
            views.map(|(view, layout)| (view.name().to_owned(), SavedView::from(*view, layout)));
        Saved {
            view: self.view,
            delay: Some(self.delay.as_secs_f64()),
            name_width: Some(self.name_width),
            quantiles: self.quantiles,
            views: views.collect(),
        }
    }

    /// Takes figures, or the reason why there are none.
    pub(super) fn take(&mut self, sample: Result<Sample, Error>) {
        let sample = match sample {
            Ok(sample) => sample,
            Err(error) => {
                self.trouble = Some(error.message);
                return;
            }
        };
        self.trouble = None;
        self.side.get_or_insert_with(|| Side::of(&sample.snapshot));
        let comparable = |earlier: &Sample| {
            let (then, now) = (&earlier.snapshot, &sample.snapshot);
            then.began_unix_ms == now.began_unix_ms && then.at_us < now.at_us
        };
        let earlier = self.earlier.take().filter(comparable);
        if !self.is_frozen
            && let Some(earlier) = earlier
        {
            self.shown = Some((earlier, sample.clone()));
            self.updates += 1;
        }
        self.earlier = Some(sample);
    }

    /// Returns the layout of the view that is shown.
    pub(super) fn layout(&self) -> &Layout {
        // Each view has a layout.
        &self.layouts[&self.view]
    }

    /// Returns the layout of the view that is shown, to change it.
    pub(super) fn layout_mut(&mut self) -> &mut Layout {
        let view = self.view;
        self.layouts.entry(view).or_insert_with(|| Layout::of(view))
    }

    /// Reports whether there are figures yet.
    pub(super) fn has_figures(&self) -> bool {
        self.shown.is_some()
    }

    /// Returns the time of the figures; `None` if there are none yet.
    pub(super) fn time(&self) -> Option<String> {
        let (_, now) = self.shown.as_ref()?;
        let ms = now.snapshot.began_unix_ms + now.snapshot.at_us / 1000;
        Some(date::utc(ms / 1000)[11..].to_owned())
    }

    /// Makes the table for a screen with this many columns, and lines of the table.
    pub(super) fn lay_out(&mut self, width: u16, room: usize) {
        let side = self.side.unwrap_or(Side::Target);
        let rows: Vec<Row> = match &self.shown {
            Some((before, now)) => rows(self.view, side, before, now),
            None => Vec::new(),
        };
        let form = Form {
            view: self.view,
            layout: self.layout(),
            quantiles: self.quantiles,
            name_width: self.name_width,
            sort: self.layout().sort,
            filter: &self.filter,
            opened: &self.opened,
        };
        self.table = form.table(rows, width);
        self.room = room.max(1);
        self.keep_selected_in_sight();
    }

    /// Moves the selection to a line, as far as there is one.
    pub(super) fn select(&mut self, line: usize) {
        self.selected = line;
        self.keep_selected_in_sight();
    }

    fn keep_selected_in_sight(&mut self) {
        self.selected = self.selected.min(self.table.lines.len().saturating_sub(1));
        let last = self.first + self.room - 1;
        if self.selected < self.first {
            self.first = self.selected;
        } else if self.selected > last {
            self.first = self.selected + 1 - self.room;
        }
    }

    /// Shows another view.
    pub(super) fn show(&mut self, view: View) {
        self.view = view;
        (self.selected, self.first) = (0, 0);
    }
}
