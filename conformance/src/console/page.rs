//! Checks of one page: light, dark, on a phone, by keyboard, and without scripts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::browser::{Browser, Screen};
use crate::machine::process;

/// Longest time until a page under load shows other figures.
const MOVING: Duration = Duration::from_secs(20);
/// Script that tells what a reader finds in a page.
const OUTLINE: &str = include_str!("../../clients/console_outline.js");

/// Screen on which a page is looked at.
pub(super) const fn screen(width: u32, height: u32, scheme: &'static str) -> Screen {
    Screen {
        width,
        height,
        scheme,
        printed: false,
    }
}

/// Screen of a desktop.
pub(super) const DESKTOP: Screen = screen(1280, 800, "light");
/// Screen of a desktop whose user prefers dark colours.
pub(super) const DARK: Screen = screen(1280, 800, "dark");
/// Screen of a phone.
pub(super) const PHONE: Screen = screen(390, 844, "light");

/// Rules of axe that are asked once: those of WCAG, and best practice.
const ALL_RULES: &str = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']";
/// Rules of axe whose answer depends on the colours, or on the size of the screen.
const RULES_OF_COLOURS: &str = "['color-contrast']";
const RULES_OF_SIZE: &str = "['target-size', 'scrollable-region-focusable']";

/// A page, and what is wrong with it.
pub(super) struct Look<'a> {
    browser: &'a Browser,
    address: &'a str,
    /// Folder for pictures, and the name of the page there.
    pictures: Option<(&'a Path, String)>,
    /// Makes something happen, so that an event comes.
    stir: &'a dyn Fn() -> Result<()>,
    faults: Vec<String>,
    mode: &'static str,
}

impl<'a> Look<'a> {
    /// Begins to look at a page. Its shape names its pictures, where a folder for them is given.
    pub(super) fn new(
        browser: &'a Browser,
        address: &'a str,
        shape: &str,
        pictures: Option<&'a Path>,
        stir: &'a dyn Fn() -> Result<()>,
    ) -> Self {
        Self {
            browser,
            address,
            pictures: pictures.map(|folder| (folder, file_name(shape))),
            stir,
            faults: Vec::new(),
            mode: "light",
        }
    }

    /// Looks at the page in light colours, and returns what is wrong.
    ///
    /// # Errors
    /// The browser fails, which says nothing about the page.
    pub(super) fn one_mode(mut self) -> Result<Vec<String>> {
        self.forget_messages()?;
        self.light()?;
        Ok(self.faults)
    }

    /// Looks at the page in all modes, and returns what is wrong.
    ///
    /// # Errors
    /// The browser fails, which says nothing about the page.
    pub(super) fn all_modes(mut self) -> Result<Vec<String>> {
        self.forget_messages()?;
        self.light()?;
        self.dark()?;
        let outline = self.phone()?;
        self.without_scripts(&outline)?;
        Ok(self.faults)
    }

    fn fault(&mut self, what: impl AsRef<str>) {
        let mode = self.mode;
        self.faults.push(format!("{mode}: {}", what.as_ref()));
    }

    /// Notes each text of a list that a script returns.
    fn note_all(&mut self, script: &str) -> Result<()> {
        let found = self.browser.run(script)?;
        for text in found.as_array().context("the script returned no list")? {
            self.fault(text.as_str().unwrap_or_default());
        }
        Ok(())
    }

    /// Forgets what the browser had to say of pages before this one.
    fn forget_messages(&self) -> Result<()> {
        self.browser.console()?;
        self.browser.requests()?;
        Ok(())
    }

    fn light(&mut self) -> Result<()> {
        self.browser.show_on(DESKTOP)?;
        self.browser.go(self.address)?;
        self.axe(ALL_RULES)?;
        self.note_all("return lab.overhang(innerWidth)")?;
        self.note_all("return lab.crooked()")?;
        self.keyboard()?;
        self.figures_move()?;
        self.end_of_mode(DESKTOP)
    }

    /// Shows the page in dark colours. The page follows the system while it is open.
    fn dark(&mut self) -> Result<()> {
        self.mode = "dark";
        self.browser.show_on(DARK)?;
        self.axe(RULES_OF_COLOURS)?;
        self.end_of_mode(DARK)
    }

    /// Shows the page on a phone, and returns what a reader finds in it.
    fn phone(&mut self) -> Result<Value> {
        self.mode = "phone";
        self.browser.show_on(PHONE)?;
        self.browser.go(self.address)?;
        self.note_all(&format!("return lab.overhang({})", PHONE.width))?;
        self.note_all("return lab.crooked()")?;
        self.axe(RULES_OF_SIZE)?;
        self.end_of_mode(PHONE)?;
        self.browser.run(OUTLINE)
    }

    /// Compares the page with itself as it is without scripts.
    fn without_scripts(&mut self, with: &Value) -> Result<()> {
        self.mode = "without scripts";
        self.browser.let_scripts_run(false)?;
        let shown = self.browser.go(self.address);
        let without = shown.and_then(|()| self.browser.run(OUTLINE));
        self.browser.let_scripts_run(true)?;
        self.compare(with, &without?);
        Ok(())
    }

    fn compare(&mut self, with: &Value, without: &Value) {
        // Figures in them may have changed meanwhile.
        let set = |outline: &Value| -> BTreeSet<String> {
            let all = outline["headings"].as_array().into_iter().flatten();
            all.filter_map(|it| it.as_str().map(without_figures))
                .collect()
        };
        let missing: Vec<String> = set(with).difference(&set(without)).cloned().collect();
        if !missing.is_empty() {
            self.fault(format!("these are missing: {}", missing.join("; ")));
        }
        // Objects come and go while the page is looked at, such as lines of the audit log.
        let number = |outline: &Value, what: &str| outline[what].as_f64().unwrap_or(0.0);
        for what in ["rows", "controls", "letters"] {
            let (with, without) = (number(with, what), number(without, what));
            if without < with * 0.9 - 2.0 {
                self.fault(format!("{without} {what} in place of {with}"));
            }
        }
        if number(without, "letters") < 40.0 {
            self.fault("the page says nothing");
        }
    }

    fn axe(&mut self, rules: &str) -> Result<()> {
        self.note_all(&format!("return lab.axe({rules})"))
            .context("axe")
    }

    /// Walks the page by Tab.
    fn keyboard(&mut self) -> Result<()> {
        let stops = self.browser.run("return lab.stops()")?;
        // A few more, because the browser has stops of its own.
        for _ in 0..stops.as_u64().context("no number of stops")? + 4 {
            self.browser.press_tab()?;
        }
        self.note_all("return lab.keyboard()")
    }

    /// Waits until a live figure of the page changes, if it has any. An event comes when something
    /// happens, and one of a choice may not come for long.
    fn figures_move(&mut self) -> Result<()> {
        let has_figures = "return document.body.dataset.stream !== undefined \
                           && (!document.body.dataset.stream.includes('view=events') || location.search === '') \
                           && document.querySelector('[data-id] [data-v], [data-now]') !== null";
        if self.browser.run(has_figures)? != true {
            return Ok(());
        }
        (self.stir)()?;
        let moved = process::until("a figure changes", MOVING, || {
            self.browser
                .run("return lab.moves > 0")
                .is_ok_and(|moves| moves == true)
        });
        if moved.is_err() {
            self.fault("the live figures stand still");
        }
        Ok(())
    }

    /// Notes what the browser has to say at the end of a mode, and keeps a picture.
    fn end_of_mode(&mut self, screen: Screen) -> Result<()> {
        self.note_all("return lab.breaches.map((it) => `breaks the policy: ${it}`)")?;
        for message in self.browser.console()? {
            self.fault(format!("the browser's console says {message}"));
        }
        let origin: String = self
            .address
            .split('/')
            .take(3)
            .collect::<Vec<_>>()
            .join("/");
        for address in self.browser.requests()? {
            if !address.starts_with(&origin) {
                self.fault(format!("the page asks {address}"));
            }
        }
        let Some((folder, name)) = &self.pictures else {
            return Ok(());
        };
        let file = folder.join(format!("{name}-{}.png", self.mode));
        fs::write(&file, whole_picture(self.browser, screen)?)
            .with_context(|| format!("keep {}", file.display()))
    }
}

/// Returns a text with a mark in place of each figure.
fn without_figures(text: &str) -> String {
    let is_figure = |letter: char| letter.is_ascii_digit() || letter == '.';
    let mut out = String::new();
    for letter in text.chars() {
        match is_figure(letter) {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(letter),
        }
    }
    out
}

/// Returns the name of a page's pictures: `/units/*` is `units-x`.
fn file_name(shape: &str) -> String {
    let words = shape
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '*'))
        .filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-").replace('*', "x");
    match name.is_empty() {
        true => "overview".to_owned(),
        false => name,
    }
}

/// Returns the page as a picture, down to its end or to the height of three screens.
pub(super) fn whole_picture(browser: &Browser, screen: Screen) -> Result<Vec<u8>> {
    let height = browser.run("return document.documentElement.scrollHeight")?;
    let height = height.as_u64().context("the page has no height")?;
    let height = u32::try_from(height).unwrap_or(u32::MAX);
    browser.picture(screen.width, height.clamp(1, 3 * screen.height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_differ_are_alike() {
        let texts = [
            "tank: 72.3M available of 126M",
            "tank: 9M available of 126M",
        ];
        assert_eq!(without_figures(texts[0]), without_figures(texts[1]));
        assert_ne!(without_figures("tank 1"), without_figures("pond 1"));
    }

    #[test]
    fn pages_name_their_pictures() {
        assert_eq!(file_name("/"), "overview");
        assert_eq!(file_name("/units/*"), "units-x");
        assert_eq!(file_name("/maps?host,unit"), "maps-host-unit");
    }
}
