//! The screen as a user sees it, driven by keys, drawn without a terminal.

use std::time::Duration;

use model::Error;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::super::keys::Effect;
use super::super::rows::tests::{initiator, target};
use super::super::saved::Saved;
use super::*;

struct User {
    screen: Screen,
    width: u16,
    height: u16,
}

impl User {
    /// Returns a user who sees the second figures of a target.
    fn new(width: u16, height: u16) -> Self {
        let mut screen = Screen::new(&Saved::default(), None, None);
        screen.take(Ok(target(1)));
        screen.take(Ok(target(3)));
        Self {
            screen,
            width,
            height,
        }
    }

    /// Draws the screen, and returns its lines without trailing blanks.
    fn sees(&mut self) -> Vec<String> {
        let backend = TestBackend::new(self.width, self.height);
        let mut terminal = Terminal::new(backend).expect("a terminal");
        terminal
            .draw(|frame| draw(frame, &mut self.screen))
            .expect("drawn");
        let buffer = terminal.backend().buffer();
        let line = |y: u16| {
            let cells = (0..self.width).map(|x| buffer[(x, y)].symbol());
            cells.collect::<String>().trim_end().to_owned()
        };
        (0..self.height).map(line).collect()
    }

    fn text(&mut self) -> String {
        self.sees().join("\n")
    }

    fn press(&mut self, code: KeyCode) -> Effect {
        // The meaning of a key depends on the screen, which is therefore drawn first.
        self.sees();
        self.screen
            .event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    fn types(&mut self, text: &str) {
        for letter in text.chars() {
            self.press(match letter {
                '\n' => KeyCode::Enter,
                letter => KeyCode::Char(letter),
            });
        }
    }
}

/// Returns the first word of each row of the table.
fn names(lines: &[String]) -> Vec<&str> {
    let rows = lines.iter().skip(3).filter(|line| !line.is_empty());
    rows.filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn devices_are_shown_first_on_wide_and_narrow_screens() {
    for width in [80, 200] {
        let mut user = User::new(width, 24);
        let lines = user.sees();
        assert!(
            lines[0].starts_with("04:05:03 UTC  target: devices (u)  every 5 s"),
            "{lines:?}"
        );
        assert!(lines[0].ends_with("h: help  q: quit"), "{lines:?}");
        assert!(lines[2].starts_with("DEVICE"), "{lines:?}");
        assert!(lines[2].contains("DAVG/cmd"), "{lines:?}");
        assert_eq!(lines[2].contains("%USD"), width == 200, "{lines:?}");
        assert_eq!(names(&lines), ["vm1", "db"]);
        assert!(lines[3].contains("200.00"), "{lines:?}");
    }
    // Nothing panics on a screen that is too small for anything.
    for (width, height) in [(1, 1), (10, 3), (30, 4), (300, 2)] {
        User::new(width, height).sees();
    }
}

#[test]
fn letters_show_views_and_sort_them() {
    let mut user = User::new(120, 24);
    for (letter, title) in [
        ('d', "ADAPTR"),
        ('v', "VMNAME"),
        ('n', "PORT-ID"),
        ('p', "POOL/VDEV"),
    ] {
        user.types(&letter.to_string());
        let lines = user.sees();
        assert!(lines[2].contains(title), "{lines:?}");
    }
    user.types("v");
    // A host shows its units by itself.
    assert_eq!(names(&user.sees()), ["1", "1", "2", "2"]);
    user.types("u");
    assert_eq!(names(&user.sees()), ["vm1", "db"]);
    user.screen.layout_mut().sort = Sort::Largest(0);
    user.types("r");
    assert!(user.text().contains("by READS/s"));
    assert_eq!(names(&user.sees()), ["vm1", "db"]);
    user.types("N");
    assert!(!user.text().contains("by READS/s"));
    user.types("x");
    assert!(user.text().contains("'x' does nothing here"));
    assert_eq!(user.press(KeyCode::Char('q')), Effect::Quit);
}

#[test]
fn rows_are_opened_selected_and_filtered() {
    let mut user = User::new(120, 24);
    user.types("e");
    assert!(user.text().contains("esx1"), "{}", user.text());
    user.types("P");
    let text = user.text();
    assert!(
        text.contains("session 1 esx1") && text.contains("session 2 esx1"),
        "{text}"
    );
    user.types("P");
    user.press(KeyCode::Down);
    user.types("e");
    assert!(user.text().contains("esx2"));
    user.types("/VM\n");
    assert_eq!(names(&user.sees()), ["vm1"]);
    user.types("/\u{8}");
    user.press(KeyCode::Esc);
    user.types("/nothing\n");
    assert!(user.text().contains("no row has this text"));
    user.press(KeyCode::Esc);
    assert_eq!(names(&user.sees())[0], "vm1");
    // Far beyond the last row, the last one is selected.
    user.press(KeyCode::End);
    assert_eq!(user.screen.selected, user.screen.table.lines.len() - 1);
}

#[test]
fn a_short_screen_scrolls() {
    let mut user = User::new(120, 5);
    user.types("v");
    user.press(KeyCode::End);
    assert_eq!(names(&user.sees()), ["2", "2"]);
    user.press(KeyCode::Home);
    assert_eq!(names(&user.sees()), ["1", "1"]);
}

#[test]
fn columns_are_chosen_and_moved() {
    let mut user = User::new(200, 24);
    user.types("f");
    let text = user.text();
    assert!(
        text.contains("* A: DEVICE") && text.contains("R: DAVG/rd"),
        "{text}"
    );
    // The second column goes, and one that was hidden comes.
    user.types("br");
    user.press(KeyCode::Esc);
    let header = user.sees()[2].clone();
    assert!(!header.contains("PATH/WORLD"), "{header}");
    assert!(user.screen.layout().columns.contains(&17));
    user.types("oA");
    user.types("a");
    user.press(KeyCode::Enter);
    let header = user.sees()[2].clone();
    assert!(
        !header.starts_with("DEVICE") && header.contains("DEVICE"),
        "{header}"
    );
    user.types("9");
    let header = user.sees()[2].clone();
    assert!(header.contains("P99/rd"), "{header}");
}

#[test]
fn delay_and_width_are_asked_for_and_checked() {
    let mut user = User::new(100, 24);
    user.types("s0.2\n");
    assert!(user.text().contains("the shortest delay is 1 second"));
    user.types("s2\n");
    assert_eq!(user.screen.delay, Duration::from_secs(2));
    user.types("L999\n");
    assert!(user.text().contains("names have 8 to 200 characters"));
    user.types("L12\n");
    assert_eq!(user.screen.name_width, 12);
    user.types("s9");
    user.press(KeyCode::Backspace);
    assert!(user.text().contains("Seconds from update to update: _"));
    user.press(KeyCode::Esc);
    assert_eq!(user.screen.delay, Duration::from_secs(2));
}

#[test]
fn a_choice_is_saved_where_the_user_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.toml");
    let mut user = User::new(100, 24);
    user.screen.file = Some(file.clone());
    user.types("vW\n");
    assert!(user.text().contains("saved in"), "{}", user.text());
    let saved = super::super::saved::read(&file)
        .expect("a choice")
        .expect("a file");
    assert_eq!(saved.view, View::Hosts);
    user.types("W/\n");
    assert!(user.text().contains("was not written"), "{}", user.text());
}

#[test]
fn a_daemon_that_goes_away_is_told_until_it_is_back() {
    let mut user = User::new(100, 24);
    let gone = || Error::not_found("nobody answers at control.sock", "start the daemon");
    user.screen.take(Err(gone()));
    let text = user.text();
    assert!(
        text.contains("No new figures; trying again. nobody answers"),
        "{text}"
    );
    user.screen.take(Ok(target(4)));
    user.screen.overdue = Duration::from_secs(7);
    assert!(user.text().contains("the daemon has not answered for 7 s"));
    user.screen.overdue = Duration::ZERO;
    user.screen.take(Err(gone()));
    // The last figures stay.
    assert_eq!(names(&user.sees()), ["vm1", "db"]);
    let mut again = target(1);
    again.snapshot.began_unix_ms += 60_000;
    user.screen.take(Ok(again.clone()));
    assert!(!user.text().contains("No new figures"));
    // Figures of another daemon are not compared with those of the first.
    assert!(user.text().starts_with("04:05:04"));
    again.snapshot.at_us += 1_000_000;
    user.screen.take(Ok(again));
    assert!(user.text().starts_with("04:06:02"), "{}", user.text());
}

#[test]
fn frozen_figures_stand_still_and_then_are_those_of_now() {
    let mut user = User::new(100, 24);
    user.types("z");
    user.screen.take(Ok(target(8)));
    assert!(user.text().starts_with("04:05:03") && user.text().contains("FROZEN"));
    user.types("z");
    user.screen.take(Ok(target(9)));
    assert!(user.text().starts_with("04:05:09"));
}

#[test]
fn an_initiator_is_recognized_and_the_side_can_be_changed() {
    let mut user = User::new(100, 24);
    user.screen = Screen::new(&Saved::default(), None, None);
    assert!(user.text().contains("waiting for the first figures"));
    user.screen.take(Ok(initiator(1)));
    user.screen.take(Ok(initiator(2)));
    assert_eq!(names(&user.sees()), ["naa.600"]);
    user.types("v");
    assert!(user.text().contains("An initiator has no hosts"));
    user.types("iu");
    assert!(user.text().contains("target: devices"));
    assert!(user.text().contains("nothing to show here yet"));
}

#[test]
fn the_mouse_selects_and_sorts() {
    let mut user = User::new(120, 24);
    let header = user.sees()[2].clone();
    let mouse = |kind, column: usize, row| {
        Event::Mouse(MouseEvent {
            kind,
            column: column as u16,
            row,
            modifiers: KeyModifiers::NONE,
        })
    };
    let click = MouseEventKind::Down(MouseButton::Left);
    user.screen.event(&mouse(click, 3, HEAD + 2));
    assert_eq!(user.screen.selected, 1);
    let at = header.find("READS/s").expect("a title");
    user.screen.event(&mouse(click, at, HEAD));
    assert!(user.text().contains("by READS/s"));
    user.screen.event(&mouse(click, 0, HEAD));
    assert!(!user.text().contains("by READS/s"));
    user.screen.event(&mouse(MouseEventKind::ScrollUp, 0, 9));
    assert_eq!(user.screen.selected, 0);
}

#[test]
fn the_help_fits_and_scrolls() {
    let mut user = User::new(100, 12);
    user.types("h");
    assert!(user.text().contains("Views:"));
    for _ in 0..9 {
        user.press(KeyCode::PageDown);
    }
    assert!(
        user.text().contains("the figure is not known"),
        "{}",
        user.text()
    );
    user.types("q");
    assert_eq!(user.screen.focus, Focus::Table);
    assert!(HELP.iter().all(|line| line.len() <= 100));
}

#[test]
fn control_keys_end_and_suspend() {
    let mut user = User::new(100, 24);
    for (letter, effect) in [('c', Effect::Quit), ('z', Effect::Suspend)] {
        let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        assert_eq!(user.screen.event(&Event::Key(key)), effect);
    }
}
