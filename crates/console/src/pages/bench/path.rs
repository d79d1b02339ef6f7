//! The command by which a host measures the whole path. A benchmark in the daemon measures the unit
//! without the network.

use ::benchmarks::{OUTSTANDING, ROUNDS, StartBenchmark, TIME_MS};
use control::answer::UnitView;
use control::endpoint::lu;
use maud::{Markup, html};
use model::quantity::format_time;

use crate::pages::unit::access;
use crate::visit::Visit;

/// Shows what a benchmark measures, and the command for the whole path.
pub(super) fn whole_path(visit: &Visit, order: &StartBenchmark, writes: bool) -> Markup {
    let unit = visit.call(&lu::SHOW, &[&order.unit]).ok();
    let url = unit.as_ref().and_then(|view| url(visit, view));
    html! {
        section aria-label="The whole path" {
            h2 { "The whole path" }
            p { "The daemon measures the unit without the network and without a host's queue. "
                @match &url {
                    Some(_) => "The same load on a host, where Sandstone is installed, measures all of it:",
                    None => "Map the unit to a host, and this page says what to type there to measure all of it.",
                }
            }
            @if let Some(url) = &url {
                pre tabindex="0" { (command(order, url, writes)) }
                p.quiet { "The difference between the two is what network and host cost. "
                    "A host with CHAP names its user and secret: iscsi://user%secret@…" }
            }
        }
    }
}

/// Returns the address of a unit for an initiator.
fn url(visit: &Visit, view: &UnitView) -> Option<String> {
    let config = visit.console.door.plane().transactions.config();
    let mut all = view.maps.iter();
    let (_, access) = all.find_map(|map| access(&config, view, map))?;
    let portal = access.portals.first()?;
    Some(format!("iscsi://{portal}/{}/{}", access.target, access.lun))
}

/// Returns the command by which a host makes the same load.
fn command(order: &StartBenchmark, url: &str, writes: bool) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut add = |word: String| words.push(word);
    let mix = |add: &mut dyn FnMut(String)| {
        add(format!("--reads {}", order.reads.unwrap_or(100)));
        add(format!("--random {}", order.random.unwrap_or(0)));
    };
    let verb = match (&order.profile, &order.sweep) {
        (Some(profile), _) => {
            add(format!("--profile {profile}"));
            if let Some(only) = &order.only {
                add(format!("--only '{}'", only.replace('\'', "'\\''")));
            }
            "run"
        }
        (None, Some(sweep)) => {
            let joined = |values: Vec<String>| values.join(",");
            let blocks = joined(sweep.blocks.iter().map(u32::to_string).collect());
            let depths = joined(sweep.outstanding.iter().map(u32::to_string).collect());
            add(format!("--block {}", sweep.blocks.first().unwrap_or(&4096)));
            mix(&mut add);
            add(format!(
                "--knob block={blocks} --knob outstanding={depths} --cross"
            ));
            "sweep"
        }
        (None, None) => {
            add(format!("--block {}", order.block.unwrap_or(4096)));
            mix(&mut add);
            "run"
        }
    };
    if order.sweep.is_none() {
        add(format!(
            "--outstanding {}",
            order.outstanding.unwrap_or(OUTSTANDING)
        ));
    }
    if let Some(workers) = order.workers {
        add(format!("--workers {workers}"));
    }
    if let Some(rate) = order.rate {
        add(format!("--rate {rate}"));
    }
    if let Some(set) = order.working_set {
        add(format!("--working-set {set}"));
    }
    add(format!(
        "--time {}",
        format_time(order.time_ms.unwrap_or(TIME_MS))
    ));
    add(format!("--repeat {}", order.rounds.unwrap_or(ROUNDS)));
    if writes {
        add("--destroy-data".to_owned());
    }
    format!("sandstone bench {verb} '{url}' {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use ::benchmarks::SweepOrder;

    use super::*;

    #[test]
    fn each_kind_has_its_command() {
        let url = "iscsi://10.0.0.1:3260/iqn.a:b/3";
        let block = StartBenchmark {
            block: Some(8192),
            reads: Some(70),
            ..StartBenchmark::default()
        };
        let expected = format!(
            "sandstone bench run '{url}' --block 8192 --reads 70 --random 0 --outstanding 16 \
             --time 10s --repeat 3 --destroy-data"
        );
        assert_eq!(command(&block, url, true), expected);
        let sweep = StartBenchmark {
            sweep: Some(SweepOrder {
                blocks: vec![4096, 65_536],
                outstanding: vec![1, 16],
            }),
            ..StartBenchmark::default()
        };
        let text = command(&sweep, url, false);
        assert!(text.starts_with("sandstone bench sweep"), "{text}");
        assert!(
            text.contains("--knob block=4096,65536 --knob outstanding=1,16 --cross"),
            "{text}"
        );
        let profile = StartBenchmark {
            profile: Some("crystal".to_owned()),
            only: Some("it's".to_owned()),
            ..StartBenchmark::default()
        };
        let text = command(&profile, url, true);
        assert!(
            text.contains("--profile crystal --only 'it'\\''s'"),
            "{text}"
        );
    }
}
