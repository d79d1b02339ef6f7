//! Keys and the mouse: what each does to the state of the screen.

use std::path::PathBuf;
use std::time::Duration;

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::draw::HEAD;
use super::fields::View;
use super::rows::Side;
use super::saved;
use super::screen::{Focus, Question, Screen};
use super::table::Sort;

/// Consequence of an event beyond the state of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// None.
    None,
    /// The program ends.
    Quit,
    /// The program steps aside, as the shell's job control wants.
    Suspend,
    /// Figures are wanted now.
    Refresh,
}

/// Lines that the wheel of the mouse moves.
const WHEEL: usize = 3;

impl Screen {
    /// Handles an event of the terminal.
    pub(super) fn event(&mut self, event: &Event) -> Effect {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(*key),
            Event::Mouse(mouse) => {
                self.mouse(*mouse);
                Effect::None
            }
            _ => Effect::None,
        }
    }

    fn key(&mut self, key: KeyEvent) -> Effect {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Effect::Quit,
                KeyCode::Char('z') => Effect::Suspend,
                KeyCode::Char('l') => Effect::Refresh,
                _ => Effect::None,
            };
        }
        self.message = None;
        match std::mem::take(&mut self.focus) {
            Focus::Table => self.table_key(key.code),
            Focus::Question(question, text) => self.question_key(question, text, key.code),
            Focus::Fields => self.fields_key(key.code),
            Focus::Order => self.order_key(key.code),
            Focus::Help(line) => self.help_key(line, key.code),
        }
    }

    fn table_key(&mut self, code: KeyCode) -> Effect {
        let page = self.room.saturating_sub(1).max(1);
        match code {
            KeyCode::Up => self.select(self.selected.saturating_sub(1)),
            KeyCode::Down => self.select(self.selected + 1),
            KeyCode::PageUp => self.select(self.selected.saturating_sub(page)),
            KeyCode::PageDown => self.select(self.selected + page),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX - 1),
            KeyCode::Enter | KeyCode::Right | KeyCode::Left => self.open(),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(letter) => return self.letter(letter),
            _ => {}
        }
        Effect::None
    }

    fn letter(&mut self, letter: char) -> Effect {
        match letter {
            'q' => return Effect::Quit,
            ' ' => return Effect::Refresh,
            '?' | 'h' => self.focus = Focus::Help(0),
            'f' => self.focus = Focus::Fields,
            'o' => self.focus = Focus::Order,
            's' => self.ask(Question::Delay, String::new()),
            'L' => self.ask(Question::Width, String::new()),
            '/' => self.ask(Question::Filter, self.filter.clone()),
            'W' => {
                let file = self.file.clone().or_else(saved::default_file);
                let file = file.map(|file| file.display().to_string());
                self.ask(Question::File, file.unwrap_or_default());
            }
            'e' => self.open(),
            'P' => self.open_paths(),
            '9' => self.quantiles = !self.quantiles,
            'z' => self.is_frozen = !self.is_frozen,
            'i' => self.change_side(),
            'N' => self.layout_mut().sort = Sort::Natural,
            _ => match (View::of(letter), self.view.sorted_by(letter)) {
                (Some(view), _) => self.show(view),
                (None, Some(column)) => self.layout_mut().sort = Sort::Largest(column),
                (None, None) => {
                    self.message = Some(format!("{letter:?} does nothing here; h shows all keys"));
                }
            },
        }
        Effect::None
    }

    fn ask(&mut self, question: Question, text: String) {
        self.focus = Focus::Question(question, text);
    }

    fn change_side(&mut self) {
        self.side = Some(match self.side {
            Some(Side::Target) | None => Side::Initiator,
            Some(Side::Initiator) => Side::Target,
        });
        self.select(0);
    }

    /// Opens the selected row, or the row above it.
    fn open(&mut self) {
        let Some(line) = self.table.lines.get(self.selected) else {
            return;
        };
        let (own, top) = (line.key.clone(), line.top.clone());
        // A vdev of a pool has rows beneath it itself.
        let key = if self.view == View::Pools { own } else { top };
        self.opened.turn(self.view, &key);
    }

    fn open_paths(&mut self) {
        let Some(line) = self.table.lines.get(self.selected) else {
            return;
        };
        let key = match self.view {
            // Hosts show their units; each unit has paths.
            View::Hosts => line.key.clone(),
            _ => line.top.clone(),
        };
        self.opened.turn_paths(self.view, &key);
    }

    fn question_key(&mut self, question: Question, mut text: String, code: KeyCode) -> Effect {
        match code {
            KeyCode::Esc => return Effect::None,
            KeyCode::Enter => return self.answer(question, text.trim()),
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Char(letter) => text.push(letter),
            _ => {}
        }
        self.ask(question, text);
        Effect::None
    }

    fn answer(&mut self, question: Question, text: &str) -> Effect {
        match question {
            Question::Filter => {
                self.filter = text.to_owned();
                self.select(0);
            }
            Question::Delay if text.is_empty() => {}
            Question::Delay => match super::delay(text) {
                Ok(delay) => {
                    self.delay = delay;
                    return Effect::Refresh;
                }
                Err(error) => self.message = Some(error),
            },
            Question::Width if text.is_empty() => {}
            Question::Width => match text.parse().ok().filter(|width| (8..=200).contains(width)) {
                Some(width) => self.name_width = width,
                None => self.message = Some("names have 8 to 200 characters".to_owned()),
            },
            Question::File if text.is_empty() => {}
            Question::File => {
                let file = PathBuf::from(text);
                self.message = Some(match saved::write(&file, &self.saved()) {
                    Ok(()) => format!("saved in {text}"),
                    Err(error) => error,
                });
                self.file = Some(file);
            }
        }
        Effect::None
    }

    /// Shows or hides the column of a letter.
    fn fields_key(&mut self, code: KeyCode) -> Effect {
        let KeyCode::Char(letter) = code else {
            return Effect::None;
        };
        self.focus = Focus::Fields;
        if let Some(number) = column_of(self.view, letter) {
            let columns = &mut self.layout_mut().columns;
            match columns.iter().position(|shown| *shown == number) {
                Some(_) if columns.len() == 1 => {
                    self.message = Some("one column must stay".to_owned());
                }
                Some(at) => drop(columns.remove(at)),
                None => {
                    let at = columns.iter().position(|shown| *shown > number);
                    columns.insert(at.unwrap_or(columns.len()), number);
                }
            }
        }
        Effect::None
    }

    /// Moves the column of a letter: upper case to the left, lower case to the right.
    fn order_key(&mut self, code: KeyCode) -> Effect {
        let KeyCode::Char(letter) = code else {
            return Effect::None;
        };
        self.focus = Focus::Order;
        if let Some(number) = column_of(self.view, letter) {
            let columns = &mut self.layout_mut().columns;
            if let Some(at) = columns.iter().position(|shown| *shown == number) {
                let to = match letter.is_uppercase() {
                    true => at.saturating_sub(1),
                    false => (at + 1).min(columns.len() - 1),
                };
                columns.swap(at, to);
            }
        }
        Effect::None
    }

    fn help_key(&mut self, line: u16, code: KeyCode) -> Effect {
        let to = match code {
            KeyCode::Up => line.saturating_sub(1),
            KeyCode::Down | KeyCode::Char(' ') => line + 1,
            KeyCode::PageUp => line.saturating_sub(10),
            KeyCode::PageDown => line + 10,
            _ => return Effect::None,
        };
        self.focus = Focus::Help(to);
        Effect::None
    }

    fn mouse(&mut self, mouse: MouseEvent) {
        if self.focus != Focus::Table {
            return;
        }
        match mouse.kind {
            MouseEventKind::ScrollUp => self.select(self.selected.saturating_sub(WHEEL)),
            MouseEventKind::ScrollDown => self.select(self.selected + WHEEL),
            MouseEventKind::Down(MouseButton::Left) => match mouse.row.checked_sub(HEAD) {
                // A click on a title sorts, a click on a row selects it.
                Some(0) => self.sort_at(mouse.column),
                Some(line) => {
                    let line = self.first + usize::from(line) - 1;
                    if line < self.table.lines.len() {
                        self.select(line);
                    }
                }
                None => {}
            },
            _ => {}
        }
    }

    fn sort_at(&mut self, column: u16) {
        let mut columns = self.table.columns.iter();
        let found = columns.rfind(|(first, _)| *first <= column);
        if let Some((_, number)) = found.copied() {
            let is_words = self.view.fields()[number].is_words;
            self.layout_mut().sort = match is_words {
                true => Sort::Natural,
                false => Sort::Largest(number),
            };
        }
    }
}

/// Returns the column of a letter in the lists of columns.
fn column_of(view: View, letter: char) -> Option<usize> {
    let letter = letter.to_ascii_lowercase();
    if !letter.is_ascii_lowercase() {
        return None;
    }
    let number = (letter as u8 - b'a').into();
    let mut choosable = choosable(view);
    choosable.nth(number).map(|(_, number)| number)
}

/// Returns the columns that can be chosen, each with its letter and its number.
pub(super) fn choosable(view: View) -> impl Iterator<Item = (char, usize)> {
    let fields = view.fields().iter().enumerate();
    let fields = fields.filter(|(_, field)| !field.is_quantile);
    ('A'..='Z').zip(fields.map(|(number, _)| number))
}

impl Screen {
    /// Returns the time until the next update is due, for the feed.
    pub(super) fn pace(&self) -> Duration {
        match self.has_figures() {
            true => self.delay,
            // The first figures come as soon as there are two snapshots.
            false => Duration::from_secs(1),
        }
    }
}
