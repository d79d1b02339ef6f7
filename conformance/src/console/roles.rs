//! Walk through all pages in each role. No page offers what its reader may not do, and what is not
//! offered is refused.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::site::{ROLES, Site};
use crate::browser::Browser;

/// Most pages of a walk. More show that links lead nowhere but to more links.
const MOST_PAGES: usize = 400;

/// A page as the walk found it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Path with the query.
    pub(super) path: String,
    /// Path with a star in place of each object's name.
    pub(super) shape: String,
}

/// Pages and acts that a role is offered.
struct Offered {
    pages: Vec<Found>,
    acts: BTreeSet<String>,
}

/// Walks in each role. Returns the pages of the highest role, and what is wrong.
///
/// # Errors
/// The browser fails, which says nothing about the pages.
pub(super) fn walk_all(
    browser: &Browser,
    site: &Site,
    names: &[String],
) -> Result<(Vec<Found>, Vec<String>)> {
    let mut faults = Vec::new();
    let mut offered = Vec::new();
    for role in ROLES {
        site.log_in(browser, role)?;
        offered.push(walk(browser, role, names, &mut faults)?);
    }
    let admin = offered.pop().context("no walk of an admin")?;
    for (role, own) in ROLES.iter().zip(&offered) {
        let hidden: Vec<&String> = admin.acts.difference(&own.acts).collect();
        if hidden.is_empty() {
            faults.push(format!("{role}: is offered all that an admin is"));
        }
        site.log_in(browser, role)?;
        for (act, status) in hidden.iter().zip(send(browser, &hidden)?) {
            if status != 403 {
                faults.push(format!(
                    "{role}: {act} is not offered, and answers {status}"
                ));
            }
        }
    }
    Ok((admin.pages, faults))
}

/// Walks all pages in the role of the user who is logged in.
fn walk(
    browser: &Browser,
    role: &str,
    names: &[String],
    faults: &mut Vec<String>,
) -> Result<Offered> {
    let walked = browser.run(&format!("return lab.walk({MOST_PAGES}, {})", json!(names)))?;
    if walked["left"] != 0 {
        faults.push(format!("{role}: there are more than {MOST_PAGES} pages"));
    }
    let mut offered = Offered {
        pages: Vec::new(),
        acts: BTreeSet::new(),
    };
    for page in walked["pages"].as_array().context("no list of pages")? {
        let text = |field: &str| page[field].as_str().unwrap_or_default().to_owned();
        // A session may have ended since a page named it, so an object may be gone. The link to it
        // was right.
        if page["status"] != 200 {
            let (path, from) = (text("path"), text("from"));
            faults.push(format!(
                "{role}: the link to {path} on {from} answers {}",
                page["status"]
            ));
            continue;
        }
        let acts = page["actions"].as_array().into_iter().flatten();
        let acts = acts.filter_map(|act| act.as_str().map(str::to_owned));
        offered.acts.extend(acts);
        offered.pages.push(Found {
            path: text("path"),
            shape: text("shape"),
        });
    }
    ensure!(
        offered.pages.len() > 10 && !offered.acts.is_empty(),
        "the walk as {role} found {} pages and {} acts",
        offered.pages.len(),
        offered.acts.len()
    );
    Ok(offered)
}

/// Sends an empty form to each act, and returns the statuses.
fn send(browser: &Browser, acts: &[&String]) -> Result<Vec<u64>> {
    let statuses = browser.run(&format!("return lab.send({})", json!(acts)))?;
    let statuses = statuses.as_array().context("no list of statuses")?;
    Ok(statuses.iter().filter_map(Value::as_u64).collect())
}
