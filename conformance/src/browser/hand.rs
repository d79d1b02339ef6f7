//! Hand of a user: real clicks and keys, which are counted. A control is found by the words on it,
//! as people find it, so a control that has other words or is covered fails the lab.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Browser, request};
use crate::machine::process;

/// Longest time until a page says what it should.
const LIMIT: Duration = Duration::from_secs(120);
/// Time after which a reader looks again.
const AGAIN: Duration = Duration::from_millis(500);

/// Control of a page, by the words on it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control<'a> {
    /// Button with these words.
    Button(&'a str),
    /// Link with these words. Of several, the first one is meant.
    Link(&'a str),
    /// Field or choice whose label begins with these words.
    Labelled(&'a str),
}

impl Control<'_> {
    /// Returns the XPath of the control. Words have no quotes.
    fn xpath(self) -> String {
        match self {
            Self::Button(words) => format!("//main//button[normalize-space(.)='{words}']"),
            Self::Link(words) => format!("//main//a[normalize-space(.)='{words}']"),
            Self::Labelled(words) => {
                format!("//main//label[starts-with(concat(normalize-space(.), ' '), '{words} ')]")
            }
        }
    }
}

/// Hand that uses a browser.
#[derive(Debug)]
pub(crate) struct Hand<'a> {
    browser: &'a Browser,
    clicks: u32,
    begun: Instant,
}

impl<'a> Hand<'a> {
    /// Begins to count clicks and time.
    pub(crate) fn new(browser: &'a Browser) -> Self {
        Self {
            browser,
            clicks: 0,
            begun: Instant::now(),
        }
    }

    /// Returns the number of clicks so far.
    pub(crate) const fn clicks(&self) -> u32 {
        self.clicks
    }

    /// Returns clicks and time so far, for people.
    pub(crate) fn told(&self) -> String {
        let seconds = self.begun.elapsed().as_secs_f64();
        format!("{} clicks and {seconds:.1} s", self.clicks)
    }

    /// Clicks on a control, in the middle of what is seen of it. If another page follows, it is
    /// loaded when this returns.
    ///
    /// # Errors
    /// The page has no such control, or something covers it.
    pub(crate) fn click(&mut self, control: Control<'_>) -> Result<()> {
        let wanted = json!({ "using": "xpath", "value": control.xpath() });
        let element = self.browser.post("/element", &wanted);
        let element = element.and_then(|it| self.id_of(&it));
        let element = element.with_context(|| format!("{control:?} on: {}", self.page()))?;
        self.browser
            .post(&format!("/element/{element}/click"), &json!({}))
            .with_context(|| format!("click {control:?}"))?;
        self.clicks += 1;
        Ok(())
    }

    /// Types into the control that has the focus, behind what it has already.
    ///
    /// # Errors
    /// No control takes keys.
    pub(crate) fn type_keys(&self, keys: &str) -> Result<()> {
        let element = self.id_of(&self.browser.get("/element/active")?)?;
        let text = json!({ "text": keys });
        self.browser
            .post(&format!("/element/{element}/value"), &text)
            .with_context(|| format!("type {keys:?}"))?;
        Ok(())
    }

    /// Waits until the page has these words.
    ///
    /// # Errors
    /// The words do not come in time.
    pub(crate) fn sees(&self, words: &str) -> Result<()> {
        self.sees_after(words, || Ok(()))
    }

    /// Waits until the page has these words, and does something before each further look, such as
    /// loading the page again.
    ///
    /// # Errors
    /// The words do not come in time, or the work between two looks fails.
    pub(crate) fn sees_after(&self, words: &str, act: impl Fn() -> Result<()>) -> Result<()> {
        let mut failed = None;
        let seen = process::until(&format!("the page says {words:?}"), LIMIT, || {
            if self.page().contains(words) {
                return true;
            }
            std::thread::sleep(AGAIN);
            failed = act().err();
            failed.is_some()
        });
        match failed {
            Some(error) => Err(error),
            None => seen.with_context(|| format!("the page is: {}", self.page())),
        }
    }

    /// Does something in the tab that a link has opened, and closes it.
    ///
    /// # Errors
    /// There is no other tab, or the work fails.
    pub(crate) fn in_new_tab(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let own = self.browser.get("/window")?;
        let all = self.browser.get("/window/handles")?;
        let mut others = all.as_array().into_iter().flatten();
        let other = others.find(|it| **it != own).context("no tab was opened")?;
        self.switch_to(other)?;
        let done = work(self);
        let path = format!("/session/{}/window", self.browser.session);
        request(self.browser.port, "DELETE", &path, None).context("close a tab")?;
        self.switch_to(&own)?;
        done
    }

    fn switch_to(&self, tab: &Value) -> Result<()> {
        self.browser.post("/window", &json!({ "handle": tab }))?;
        Ok(())
    }

    /// Returns the text of the page, as its reader sees it.
    fn page(&self) -> String {
        let text = self
            .browser
            .run("return document.querySelector('main')?.innerText ?? ''");
        let text = text.unwrap_or_default();
        text.as_str().unwrap_or_default().to_owned()
    }

    fn id_of(&self, element: &Value) -> Result<String> {
        let fields = element.as_object().context("no element")?;
        ensure!(fields.len() == 1, "an element with other fields: {element}");
        let id = fields.values().next().and_then(Value::as_str);
        Ok(id.context("an element without a number")?.to_owned())
    }
}
