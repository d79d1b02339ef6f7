//! Knobs that cannot make a difference in the present situation: a queue that is never filled, a
//! choice among paths if there is one path. A sweep over them would end after hours with "no
//! difference", which is true but misleads. So the user is told before.

use std::collections::BTreeSet;

use super::knob::Setup;
use crate::parameters::Parameters;
use crate::reached::Reached;
use crate::workload::Workload;
use multipath::Psp;

/// Knobs that choose among paths.
const CHOICES: [&str; 4] = ["psp", "iops", "bytes", "use_ano"];

/// Sets round robin in all setups if sessions are varied and the path selection in force would
/// leave all but one idle. Otherwise more sessions would be measured as if there were one. Returns
/// a note about the change.
pub fn use_all_sessions(setups: &mut [Setup], reached: &Reached) -> Option<String> {
    let in_force = Psp::from_name(&reached.psp)?;
    let is_turned = setups
        .iter()
        .any(|setup| setup.target_options.contains_key("sessions"));
    if !is_turned || in_force.uses_all_paths() {
        return None;
    }
    let mut is_changed = false;
    for setup in setups {
        let options = &mut setup.target_options;
        if !options.contains_key("psp") {
            options.insert("psp".to_owned(), "rr".to_owned());
            is_changed = true;
        }
    }
    is_changed.then(|| {
        format!(
            "sessions: {} sends everything over one path, so all settings have psp=rr; psp is also a knob",
            in_force.name()
        )
    })
}

/// Lists the knobs that are turned in vain, a sentence for each.
pub fn remarks(setups: &[Setup], reached: &Reached) -> Vec<String> {
    let queue = queue_never_filled(setups, reached);
    queue.into_iter().chain(one_path(setups, reached)).collect()
}

fn queue_never_filled(setups: &[Setup], reached: &Reached) -> Option<String> {
    let depths = values(setups, "queue_depth");
    let depths: BTreeSet<u32> = depths.iter().filter_map(|text| text.parse().ok()).collect();
    let (least, most) = (depths.first()?, depths.last()?);
    let of_setup = |setup: &Setup| {
        let workloads = setup.profile.workloads.iter();
        let in_flight = workloads.map(|workload| in_flight(workload, &setup.parameters, reached));
        in_flight.max().unwrap_or(0)
    };
    let in_flight = setups.iter().map(of_setup).max().unwrap_or(0);
    if depths.len() < 2 || in_flight > u64::from(*least) {
        return None;
    }
    let words: Vec<String> = depths.iter().map(u32::to_string).collect();
    Some(format!(
        "queue_depth: at most {in_flight} accesses are in flight, so queues of {} are never full, and all \
         act alike; --outstanding {} fills them",
        words.join(", "),
        most.saturating_mul(2)
    ))
}

/// Returns the most commands that a workload has in flight, with longer accesses split as they will
/// be.
fn in_flight(workload: &Workload, parameters: &Parameters, reached: &Reached) -> u64 {
    let largest = parameters.max_io.unwrap_or(u32::MAX);
    let largest = match reached.max_io {
        0 => largest,
        max_io => largest.min(max_io),
    };
    let of_streams = workload.streams.iter().map(|stream| {
        let workers = stream.workers.unwrap_or(parameters.workers);
        let outstanding = stream.outstanding.unwrap_or(parameters.outstanding);
        let lines = stream.specification.lines.iter();
        let pieces = lines.map(|line| line.size.div_ceil(largest)).max();
        u64::from(workers) * u64::from(outstanding) * u64::from(pieces.unwrap_or(1))
    });
    of_streams.sum()
}

fn one_path(setups: &[Setup], reached: &Reached) -> Option<String> {
    let is_turned = |name: &&str| values(setups, name).len() > 1;
    let turned: Vec<&str> = CHOICES.into_iter().filter(is_turned).collect();
    let has_more = |count: &&str| count.parse().is_ok_and(|count: u32| count > 1);
    let sessions = values(setups, "sessions");
    if turned.is_empty() || reached.sessions.len() > 1 || sessions.iter().any(has_more) {
        return None;
    }
    Some(format!(
        "{}: there is only one path, and all policies use it; name more paths: ?portal=…, ?bind=… or ?sessions=2",
        turned.join(", ")
    ))
}

/// Returns the values that a session option has in these setups, each once.
fn values<'s>(setups: &'s [Setup], option: &str) -> BTreeSet<&'s str> {
    let values = setups
        .iter()
        .filter_map(|setup| setup.target_options.get(option));
    values.map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::profile;
    use crate::reached::Session;

    fn setup(options: &[(&str, &str)]) -> Setup {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Setup {
            profile: profile::find("vmktree").expect("built in"),
            parameters: Parameters::default(),
            target_options: options.iter().map(owned).collect(),
            write_cache: None,
            volume: BTreeMap::new(),
        }
    }

    fn reached(psp: &str, sessions: usize) -> Reached {
        Reached {
            psp: psp.to_owned(),
            queue_depth: 128,
            max_io: 8 << 20,
            sessions: vec![Session::default(); sessions],
        }
    }

    fn depths(change: impl Fn(&mut Setup)) -> Vec<Setup> {
        let mut setups = ["128", "64"].map(|depth| setup(&[("queue_depth", depth)]));
        setups.iter_mut().for_each(change);
        setups.into()
    }

    #[test]
    fn a_queue_that_is_never_full_is_turned_in_vain() {
        let reached = reached("VMW_PSP_RR", 2);
        let told = remarks(&depths(|_| ()), &reached);
        assert_eq!(
            told,
            [
                "queue_depth: at most 16 accesses are in flight, so queues of 64, 128 are never full, and all \
              act alike; --outstanding 256 fills them"
            ]
        );
        let is_told = |change: fn(&mut Setup)| !remarks(&depths(change), &reached).is_empty();
        assert!(is_told(|setup| setup.parameters.outstanding = 64));
        assert!(!is_told(|setup| setup.parameters.outstanding = 65));
        assert!(!is_told(|setup| setup.parameters.workers = 5));
        assert!(
            !is_told(|setup| setup.parameters.max_io = Some(4096)),
            "eight commands for each 32K"
        );
        assert!(
            !is_told(|setup| setup.profile.workloads[2].streams[0].outstanding = Some(100)),
            "one workload is enough"
        );
        let once = [setup(&[("queue_depth", "128")])];
        assert!(remarks(&once, &reached).is_empty(), "it is not turned");
    }

    #[test]
    fn a_choice_among_one_path_is_turned_in_vain() {
        let setups = ["1000", "1"].map(|iops| setup(&[("iops", iops), ("psp", "rr")]));
        let told = remarks(&setups, &reached("VMW_PSP_MRU", 1));
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("iops: there is only one path"),
            "{told:?}"
        );
        assert!(remarks(&setups, &reached("VMW_PSP_MRU", 2)).is_empty());
        let setups = ["1", "5"].map(|count| setup(&[("psp", "rr"), ("sessions", count)]));
        assert!(remarks(&setups, &reached("VMW_PSP_MRU", 1)).is_empty());
    }

    #[test]
    fn sessions_are_turned_where_all_of_them_are_used() {
        let setups = || ["1", "5"].map(|count| setup(&[("sessions", count)]));
        let psp = |setups: &[Setup]| {
            values(setups, "psp")
                .into_iter()
                .collect::<Vec<_>>()
                .join(" ")
        };
        for in_force in ["VMW_PSP_MRU", "VMW_PSP_FIXED"] {
            let mut setups = setups();
            let told = use_all_sessions(&mut setups, &reached(in_force, 1)).expect("told");
            assert!(told.contains(in_force), "{told}");
            assert!(
                setups
                    .iter()
                    .all(|setup| setup.target_options["psp"] == "rr")
            );
        }
        let mut used = setups();
        let least_queue = reached("SANDSTONE_PSP_LEAST_QUEUE", 1);
        assert_eq!(use_all_sessions(&mut used, &least_queue), None);
        assert_eq!(psp(&used), "", "what is configured stays");
        let mut chosen = [setup(&[("sessions", "2"), ("psp", "fixed")])];
        assert_eq!(
            use_all_sessions(&mut chosen, &reached("VMW_PSP_MRU", 1)),
            None
        );
        assert_eq!(psp(&chosen), "fixed", "psp is a knob and has the last word");
        let mut other = [setup(&[("window", "1M")])];
        assert_eq!(
            use_all_sessions(&mut other, &reached("VMW_PSP_MRU", 1)),
            None
        );
    }
}
