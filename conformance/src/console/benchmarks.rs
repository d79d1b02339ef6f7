//! Benchmarks for the lab of the console, ordered from the page as a user does: two that are alike,
//! a sweep, and one that runs on while the pages are looked at.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::site::Site;
use crate::browser::Browser;
use crate::machine::process;

const LIMIT: Duration = Duration::from_secs(60);

/// Runs benchmarks of a unit. The last one goes on.
///
/// # Errors
/// One of them does not start, or does not end.
pub(super) fn run(browser: &Browser, site: &Site, unit: &str) -> Result<()> {
    site.log_in(browser, "admin")?;
    let alike = "kind=block&block=4K&reads=100&random=100&time=2s&rounds=2";
    for (fields, comment) in [
        (alike, unit),
        (alike, "\"><script>alert(1)</script>"),
        (
            "kind=sweep&blocks=4K,64K,1M&depths=1,4,16&reads=100&random=100&time=200ms&rounds=2",
            "",
        ),
    ] {
        start(browser, unit, fields, comment)?;
        let is_over = "return fetch('/v1/benchmarks').then((answer) => answer.json())
            .then((all) => all.every((one) => one.state === 'finished'))";
        process::until("the benchmark is finished", LIMIT, || {
            browser.run(is_over).is_ok_and(|over| over == true)
        })?;
    }
    start(
        browser,
        unit,
        "kind=block&block=8K&reads=100&random=100&rate=50&time=50m",
        "",
    )?;
    // A login that stayed would be offered to its user alone, to be ended.
    let log_out =
        "return fetch('/logout', { method: 'POST', redirect: 'manual' }).then(() => true)";
    browser.run(log_out).map(drop)
}

/// Confirms the start of a benchmark.
fn start(browser: &Browser, unit: &str, fields: &str, comment: &str) -> Result<()> {
    let started = browser.run(&format!(
        "const body = new URLSearchParams({});
         body.append('unit', {});
         body.append('comment', {});
         body.append('confirmed', 'yes');
         return fetch('/bench/new', {{ method: 'POST', redirect: 'manual', body }})
            .then((answer) => answer.type === 'opaqueredirect' ? '' : answer.text());",
        json!(fields),
        json!(unit),
        json!(comment)
    ))?;
    ensure!(
        started == "",
        "the benchmark {fields} was refused: {started}"
    );
    Ok(())
}
