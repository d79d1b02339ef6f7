//! Health of the machine in one sentence, and what to do about it: the open alerts, in the words
//! of `status` and `alert list`. Each page shows the sentence, so the status behind it is asked at
//! most every two seconds, for all readers together.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control::Asker;
use control::answer::Status;
use control::endpoint::status;
use model::alert::AlertView;
use model::health::Health as Level;

use crate::format::number_of;
use crate::mark::State;
use crate::state::Console;
use crate::visit::Visit;

/// Age at which the status is asked again.
const AGE: Duration = Duration::from_secs(2);

/// Health as pages show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Health in one sentence.
    pub(crate) sentence: String,
    state: State,
}

impl Shown {
    /// Returns the class of the colour.
    pub(crate) fn class(&self) -> &'static str {
        self.state.class()
    }

    /// Returns the shape.
    pub(crate) fn mark(&self) -> &'static str {
        self.state.mark()
    }
}

/// Latest status, with its time.
#[derive(Debug, Default)]
pub(crate) struct Health {
    latest: Mutex<Option<(Instant, Arc<Status>)>>,
    /// Held by the reader that asks. All others wait for its answer, rather than ask as well.
    asking: tokio::sync::Mutex<()>,
}

impl Health {
    /// Returns the health for a page. A reader who is limited to a folder is not told.
    pub(crate) fn shown(&self, visit: &Visit) -> Option<Shown> {
        visit.reader().filter(|reader| reader.grant.is_none())?;
        let status = self.status(&visit.console, &visit.asker)?;
        Some(shown(&status))
    }

    /// Returns the status, if the asker may know it. It is at most two seconds old.
    pub(crate) fn status(&self, console: &Console, asker: &Asker) -> Option<Arc<Status>> {
        console.door.admit(asker, &status::STATUS).ok()?;
        if let Some(status) = self.young() {
            return Some(status);
        }
        let _asking = self.asking.blocking_lock();
        self.young().or_else(|| self.ask(console, asker))
    }

    /// Returns the status for a stream, if the asker may know it. Streams that wait for the answer
    /// to one of them keep no thread.
    pub(crate) async fn status_for_stream(
        console: &Arc<Console>,
        asker: &Asker,
    ) -> Option<Arc<Status>> {
        console.door.admit(asker, &status::STATUS).ok()?;
        let health = &console.live.health;
        let _asking = health.asking.lock().await;
        if let Some(status) = health.young() {
            return Some(status);
        }
        let (console, asker) = (Arc::clone(console), asker.clone());
        let ask = move || console.live.health.ask(&console, &asker);
        tokio::task::spawn_blocking(ask).await.ok()?
    }

    fn ask(&self, console: &Console, asker: &Asker) -> Option<Arc<Status>> {
        let status = Arc::new(console.door.call(asker, &status::STATUS, &[]).ok()?);
        let mut place = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some((Instant::now(), Arc::clone(&status)));
        Some(status)
    }

    /// Returns the latest status unless it is too old.
    fn young(&self) -> Option<Arc<Status>> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, status) = latest.as_ref()?;
        (at.elapsed() < AGE).then(|| Arc::clone(status))
    }

    /// Forgets the status, after a change that pages should show at once.
    pub(crate) fn forget(&self) {
        let mut place = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *place = None;
    }
}

/// Tells a status in one sentence.
pub(crate) fn shown(status: &Status) -> Shown {
    let state = match status.health {
        Level::Healthy => State::Good,
        Level::Attention => State::Warn,
        Level::Impaired => State::Bad,
    };
    let (known, new): (Vec<&AlertView>, Vec<&AlertView>) = status
        .alerts
        .iter()
        .partition(|alert| alert.acknowledged.is_some());
    let pool = status
        .pools
        .iter()
        .find(|pool| pool.health != Level::Healthy);
    let sentence = match (new.first(), known.first(), pool) {
        (Some(first), ..) => format!("{}{}", told(first), more(new.len() - 1)),
        (None, Some(first), _) if state != State::Good => {
            format!("Known: {}{}", told(first), more(known.len() - 1))
        }
        // The pool has a remark, or a fault that has not lasted long enough for an alert.
        (None, _, Some(pool)) => {
            let words = pool.status.as_deref().unwrap_or_default();
            format!("Pool {} is {}. {words}", pool.name, pool.state)
        }
        (None, ..) if state != State::Good => {
            "Something is not served. It becomes an alert if it lasts.".to_owned()
        }
        _ => well(status),
    };
    Shown {
        sentence: sentence.trim_end().to_owned(),
        state,
    }
}

/// Returns an alert in one sentence: the first one of what was found.
fn told(alert: &AlertView) -> String {
    let AlertView {
        condition,
        object,
        text,
        ..
    } = alert;
    let end = text.find(". ").map_or(text.len(), |dot| dot + 1);
    format!("{condition} of {object}: {}", &text[..end])
}

fn more(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!(" {} more.", number_of(count, "alert")),
    }
}

fn well(status: &Status) -> String {
    match (status.units, status.sessions) {
        (0, _) => "All is well. Nothing is served yet.".to_owned(),
        (units, sessions) => format!(
            "All is well: {} in {}.",
            number_of(units, "unit"),
            number_of(sessions, "session")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::alert::Acknowledgement;
    use model::pool::health::PoolHealth;

    fn status(alerts: Vec<AlertView>, health: Level) -> Status {
        let mut status: Status = serde_json::from_value(serde_json::json!({
            "version": "1", "pid": 1, "uptime_s": 1, "state": "/s", "generation": 1, "units": 2,
            "faulted_units": 0, "targets": 1, "hosts": 1, "sessions": 1, "portals": [],
        }))
        .expect("a status");
        status.alerts = alerts;
        status.health = health;
        status
    }

    fn alert(object: &str, is_known: bool) -> AlertView {
        AlertView {
            condition: "pool-degraded".to_owned(),
            object: object.to_owned(),
            text: "A device is offline. Others serve.".to_owned(),
            acknowledged: is_known.then(Acknowledgement::default),
            ..AlertView::default()
        }
    }

    #[test]
    fn the_gravest_alert_that_nobody_knows_of_is_told() {
        let all = vec![
            alert("known", true),
            alert("tank", false),
            alert("b", false),
        ];
        let told = shown(&status(all, Level::Impaired));
        assert_eq!(
            told.sentence,
            "pool-degraded of tank: A device is offline. 1 alert more."
        );
        assert_eq!(told.class(), "bad");
        let known = shown(&status(vec![alert("tank", true)], Level::Impaired));
        assert_eq!(
            known.sentence,
            "Known: pool-degraded of tank: A device is offline."
        );
    }

    #[test]
    fn a_machine_is_well_only_without_anything_to_tell() {
        let told = shown(&status(Vec::new(), Level::Healthy));
        assert_eq!(told.sentence, "All is well: 2 units in 1 session.");
        let early = shown(&status(Vec::new(), Level::Impaired));
        assert!(early.sentence.contains("becomes an alert"), "{early:?}");
        let mut remark = status(Vec::new(), Level::Attention);
        remark.pools.push(PoolHealth {
            health: Level::Attention,
            name: "tank".to_owned(),
            state: "ONLINE".to_owned(),
            status: Some("A read failed.".to_owned()),
            action: None,
            errors: String::new(),
        });
        assert_eq!(
            shown(&remark).sentence,
            "Pool tank is ONLINE. A read failed."
        );
        // An acknowledged warning leaves the machine well.
        let known = shown(&status(vec![alert("tank", true)], Level::Healthy));
        assert!(known.sentence.starts_with("All is well"), "{known:?}");
    }
}
