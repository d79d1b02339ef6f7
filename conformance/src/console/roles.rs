//! Walk through all pages in each role. No page offers what its reader may not do, and what is not
//! offered is refused.

use std::collections::{BTreeMap, BTreeSet};

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
#[derive(Clone, Debug)]
pub(super) struct Offered {
    role: &'static str,
    /// Pages in the order of their discovery.
    pub(super) pages: Vec<Found>,
    /// Acts, each with the pages that offer it.
    acts: BTreeMap<String, BTreeSet<String>>,
}

impl Offered {
    /// Returns the acts that others are offered on pages that this role sees without them.
    fn lacks<'a>(&self, others: &'a Self) -> Vec<&'a String> {
        let seen: BTreeSet<&str> = self.pages.iter().map(|page| page.path.as_str()).collect();
        let hidden = others.acts.iter().filter(|(act, pages)| {
            !self.acts.contains_key(*act) && pages.iter().any(|page| seen.contains(page.as_str()))
        });
        hidden.map(|(act, _)| act).collect()
    }
}

/// Walks in each role. Returns what each is offered, the highest role last.
///
/// # Errors
/// The browser fails, which says nothing about the pages.
pub(super) fn walk_all(
    browser: &Browser,
    site: &Site,
    names: &[String],
    faults: &mut Vec<String>,
) -> Result<Vec<Offered>> {
    let mut offered = Vec::new();
    for role in ROLES {
        site.log_in(browser, role)?;
        offered.push(walk(browser, role, names, faults)?);
    }
    Ok(offered)
}

/// Sends empty forms to all acts, as each role but the highest: what is offered is admitted, and
/// what is missing on a page is refused.
///
/// # Errors
/// The browser fails, which says nothing about the pages.
pub(super) fn acts_are_as_offered(
    browser: &Browser,
    site: &Site,
    offered: &[Offered],
    faults: &mut Vec<String>,
) -> Result<()> {
    let (admin, others) = offered.split_last().context("no walk of an admin")?;
    for own in others {
        let role = own.role;
        site.log_in(browser, role)?;
        let hidden = own.lacks(admin);
        if hidden.is_empty() {
            faults.push(format!("{role}: is offered all that an admin is"));
        }
        for (act, status) in hidden.iter().zip(send(browser, &hidden)?) {
            if status != 403 {
                faults.push(format!(
                    "{role}: {act} is not offered, and answers {status}"
                ));
            }
        }
        // The form that logs out would end the walk.
        let shown: Vec<&String> = own.acts.keys().filter(|act| *act != "/logout").collect();
        for (act, status) in shown.iter().zip(send(browser, &shown)?) {
            if [401, 403].contains(&status) || status >= 500 {
                faults.push(format!("{role}: {act} is offered, and answers {status}"));
            }
        }
    }
    Ok(())
}

/// Walks all pages in the role of the user who is logged in.
fn walk(
    browser: &Browser,
    role: &'static str,
    names: &[String],
    faults: &mut Vec<String>,
) -> Result<Offered> {
    let walked = browser.run(&format!("return lab.walk({MOST_PAGES}, {})", json!(names)))?;
    if walked["left"] != 0 {
        faults.push(format!("{role}: there are more than {MOST_PAGES} pages"));
    }
    let mut offered = Offered {
        role,
        pages: Vec::new(),
        acts: BTreeMap::new(),
    };
    for page in walked["pages"].as_array().context("no list of pages")? {
        let text = |field: &str| page[field].as_str().unwrap_or_default().to_owned();
        if page["status"] != 200 {
            let (path, from) = (text("path"), text("from"));
            faults.push(format!(
                "{role}: the link to {path} on {from} answers {}",
                page["status"]
            ));
            continue;
        }
        let acts = page["actions"].as_array().into_iter().flatten();
        for act in acts.filter_map(Value::as_str) {
            let pages = offered.acts.entry(act.to_owned()).or_default();
            pages.insert(text("path"));
        }
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
