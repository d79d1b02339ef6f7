//! Events with the rows of a moment. Viewers who watch the same objects share one text, so a wall
//! of screens costs little more than one.

use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Bytes;
use model::Config;
use serde_json::json;

use super::host_names::HostNames;
use super::moment::Moment;

/// Events of one moment, by the objects that they show.
#[derive(Debug, Default)]
pub(crate) struct RowEvents(Mutex<Vec<(Arc<[String]>, Bytes)>>);

impl RowEvents {
    /// Returns the event with the rows of objects, made once for all viewers.
    pub(super) fn of(
        &self,
        moment: &Moment,
        ids: &Arc<[String]>,
        config: &Config,
        names: &HostNames,
    ) -> Bytes {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // There are few viewers, and lists differ early: comparing costs less than hashing.
        if let Some((_, event)) = events.iter().find(|(known, _)| known == ids) {
            return event.clone();
        }
        let event = Bytes::from(written(moment, ids, config, names));
        events.push((Arc::clone(ids), event.clone()));
        event
    }
}

/// Writes the event. It comes without rows too: it shows the page that the stream lives.
fn written(moment: &Moment, ids: &[String], config: &Config, names: &HostNames) -> String {
    let rows = ids
        .iter()
        .filter_map(|id| Some((id, moment.texts(id, config, names)?)));
    let (ids, values): (Vec<&String>, Vec<Vec<String>>) = rows.unzip();
    let rows = json!({"t": moment.at_ms(), "ids": ids, "v": values});
    format!("event: rows\ndata: {rows}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_of_the_same_objects_share_one_text() {
        let (moment, config, names) = (Moment::default(), Config::default(), HostNames::default());
        let event_of = |ids: &[&str]| {
            let ids: Arc<[String]> = ids.iter().map(|id| (*id).to_owned()).collect();
            moment.row_events.of(&moment, &ids, &config, &names)
        };
        let first = event_of(&["h:esx1"]);
        let second = event_of(&["h:esx1"]);
        assert_eq!(first.as_ptr(), second.as_ptr());
        let other = event_of(&["h:esx2"]);
        assert!(String::from_utf8_lossy(&other).contains("h:esx2"));
        assert!(!String::from_utf8_lossy(&first).contains("h:esx2"));
    }
}
