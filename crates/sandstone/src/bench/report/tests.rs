//! The page as a whole: well-formed, complete, escaped, the same each time, and without a way out.

use roxmltree::{Document, Node};
use sha2::{Digest as _, Sha256};

use super::{Source, Wire, html, page};
use crate::bench::measure::latency::Latencies;
use crate::bench::measure::window::Second;
use crate::bench::parameters::Parameters;
use crate::bench::profile;
use crate::bench::random::Random;
use crate::bench::results::{
    CpuTime, DirectionResult, EsxtopLatency, FORMAT, Failures, Machine, Measurement, Results, Run,
    StreamResult, Target,
};
use crate::bench::sweep::plan::{self, Design, Settings};
use crate::bench::workload::Workload;

const HOSTILE: &str = "<script src=\"https://example.com/x.js\">alert('&\"')</script>\u{202e}";

fn direction(random: &mut Random, accesses: u64, ms: f64) -> (DirectionResult, Latencies) {
    let mut latencies = Latencies::default();
    for _ in 0..accesses {
        let spread = 0.5 + random.below(1 << 20) as f64 / f64::from(1 << 20);
        latencies.record((ms * 1e6 * spread) as u64);
    }
    let result = DirectionResult {
        accesses,
        bytes: accesses * 8192,
        errors: 0,
        latency: latencies.summary(),
    };
    (result, latencies)
}

/// A run whose figures depend on a speed; every figure that there can be is there.
fn run(workload: &Workload, settings: &Settings, round: u32, speed: f64) -> Run {
    let mut random = Random::new(u64::from(round) + 1);
    let accesses = ((1000.0 + f64::from(round % 3)) * speed) as u64;
    let (read, mut latencies) = direction(&mut random, accesses, 1.0 / speed);
    let (write, writes) = direction(&mut random, accesses / 2, 2.0 / speed);
    latencies.add(&writes);
    let second = |second: u32| Second {
        second,
        reads: accesses / 3,
        writes: accesses / 6,
        read_bytes: accesses / 3 * 8192,
        written_bytes: accesses / 6 * 8192,
        errors: 0,
        mean_ns: 1e6,
        p50_ns: 900_000,
        p99_ns: 2_000_000,
        max_ns: 3_000_000,
    };
    let measurement = Measurement {
        elapsed_ns: 3_000_000_000,
        workers: 1,
        outstanding: 16,
        streams: vec![StreamResult {
            name: "a stream".into(),
            read: read.clone(),
            write: write.clone(),
        }],
        read,
        write,
        latency: latencies.summary(),
        series: (0..3).map(second).collect(),
        cpu: Some(CpuTime {
            user_ns: 10_000_000 + u64::from(round),
            system_ns: 30_000_000,
            elapsed_ns: 3_000_000_000,
        }),
        esxtop: Some(EsxtopLatency {
            commands: accesses,
            gavg_us: 1234.0,
            kavg_us: 234.0,
            davg_us: 1000.0,
            qavg_us: 111.0,
        }),
        longest_gap_ns: 12_345_678,
        ..Measurement::default()
    };
    Run {
        round,
        settings: settings.clone(),
        workload: workload.clone(),
        parameters: Parameters::default(),
        measurement,
    }
}

fn source(label: &str, plan: Vec<Settings>, runs: Vec<Run>) -> Source {
    let results = Results {
        format: FORMAT,
        tool: "sandstone test".into(),
        started_unix_s: 1_795_287_540,
        machine: Machine {
            host: "bench-host".into(),
            kernel: "Linux 6.1".into(),
            processor: "a processor".into(),
            cores: 2,
            memory: 8 << 30,
        },
        target: Target {
            name: "iscsi://198.51.100.1/iqn.2026-01.org.example:disk/0".into(),
            len: 10 << 30,
            granularity: 512,
            physical: 4096,
            thin: false,
            volatile_cache: true,
        },
        plan,
        runs,
    };
    Source {
        label: label.into(),
        results,
    }
}

/// A sweep over two knobs: the queue depth matters, the largest I/O does not.
fn sweep(rounds: u32) -> Source {
    let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    let knobs = [
        ("queue_depth".to_owned(), values(&["32", "64"])),
        ("max-io".to_owned(), values(&["none", "32K"])),
    ];
    let plan = plan::settings(&knobs, Design::OneAtATime);
    let workloads = &profile::find("vmktree").expect("built in").workloads[..2];
    let mut runs = Vec::new();
    for (round, setting) in plan::schedule(plan.len(), rounds, 1) {
        let speed = if plan[setting]["queue_depth"] == "64" {
            1.5
        } else {
            1.0
        };
        runs.extend(
            workloads
                .iter()
                .map(|workload| run(workload, &plan[setting], round, speed)),
        );
    }
    source("sweep", plan, runs)
}

fn plain(label: &str, rounds: u32, speed: f64) -> Source {
    let workloads = profile::find("vmktree").expect("built in").workloads;
    let each = |round| {
        workloads
            .iter()
            .map(move |workload| run(workload, &Settings::new(), round, speed))
    };
    let runs: Vec<Run> = (0..rounds).flat_map(each).collect();
    source(label, Vec::new(), runs)
}

/// The body as XML: stricter than any browser.
fn body(page: &str) -> String {
    let (from, to) = (
        page.find("<body>").expect("a body"),
        page.find("</body>").expect("its end"),
    );
    page[from..to + "</body>".len()].to_owned()
}

/// All texts and values, in order.
fn words(page: &str) -> Vec<String> {
    let body = body(page);
    let document = Document::parse(&body).expect("well-formed");
    let texts = document.descendants().filter(Node::is_text);
    let texts = texts.filter_map(|node| node.text().map(str::to_owned));
    let values = document
        .descendants()
        .filter_map(|node| node.attribute("value").map(str::to_owned));
    texts.chain(values).collect()
}

fn pages() -> Vec<String> {
    let wire = Wire {
        bytes_per_s: 117e6,
        known_from: "a test".into(),
    };
    let one = [plain("a", 1, 1.0)];
    let two = [plain("before", 5, 1.0), plain("after", 5, 1.3)];
    let many = [sweep(6), plain("b", 2, 1.0)];
    vec![
        html(&one, None, 0.05),
        html(&two, Some(&wire), 0.05),
        html(&[sweep(6)], Some(&wire), 0.05),
        html(&many, None, 0.05),
        html(&[source("empty", Vec::new(), Vec::new())], None, 0.05),
        html(
            &[source("nothing measured", Vec::new(), vec![nothing()])],
            None,
            0.05,
        ),
    ]
}

/// A run in which nothing ended.
fn nothing() -> Run {
    let workload = profile::find("dd").expect("built in").workloads[0].clone();
    Run {
        measurement: Measurement {
            gave_up: true,
            failures: vec![Failures {
                kind: "gone".into(),
                count: 7,
                first: HOSTILE.into(),
            }],
            ..Measurement::default()
        },
        ..run(&workload, &Settings::new(), 0, 1.0)
    }
}

#[test]
fn every_page_is_well_formed_and_its_identifiers_are_unique() {
    for page in pages() {
        let body = body(&page);
        let document = Document::parse(&body).unwrap_or_else(|error| panic!("{error}"));
        let ids: Vec<&str> = document
            .descendants()
            .filter_map(|node| node.attribute("id"))
            .collect();
        let links = document
            .descendants()
            .filter_map(|node| node.attribute("href"));
        for link in links {
            assert!(
                ids.contains(&link.trim_start_matches('#')),
                "{link} leads nowhere"
            );
        }
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len());
    }
}

#[test]
fn every_coordinate_is_a_number_within_its_picture() {
    const COORDINATES: [&str; 10] = [
        "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height",
    ];
    for page in pages() {
        let body = body(&page);
        assert!(
            !body.contains("NaN") && !body.contains("inf "),
            "a figure that is none"
        );
        let document = Document::parse(&body).expect("well-formed");
        for picture in document
            .descendants()
            .filter(|node| node.has_tag_name("svg"))
        {
            let size = picture
                .attribute("viewBox")
                .expect("every picture has a size");
            let size: Vec<f64> = size
                .split(' ')
                .map(|n| n.parse().expect("a number"))
                .collect();
            for node in picture.descendants() {
                for name in COORDINATES {
                    let Some(text) = node.attribute(name) else {
                        continue;
                    };
                    let value: f64 = text.parse().unwrap_or_else(|_| panic!("{name}={text}"));
                    assert!(
                        (0.0..=size[2].max(size[3])).contains(&value),
                        "{name}={text} of {size:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_figure_of_the_results_is_there() {
    let source = sweep(3);
    let words = words(&html(std::slice::from_ref(&source), None, 0.05));
    let has = |word: &str| assert!(words.iter().any(|text| text == word), "{word}");
    for run in &source.results.runs {
        let m = &run.measurement;
        let spread = m.latency.distribution.as_ref().expect("measured");
        for value in [
            m.iops(),
            m.read_bytes_per_s(),
            m.write_bytes_per_s(),
            m.latency.mean_ns,
            m.latency.max_ns as f64,
            spread.stddev_ns,
            spread.min_ns as f64,
            spread.p50_ns as f64,
            spread.p90_ns as f64,
            spread.p99_ns as f64,
            spread.p99_9_ns as f64,
            spread.p99_99_ns as f64,
            m.read.latency.mean_ns,
            m.write.latency.mean_ns,
            m.read.accesses as f64,
            m.write.bytes as f64,
            m.cpu_ns_per_access().expect("measured"),
            m.cpu_cores().expect("measured"),
            m.longest_gap_ns as f64,
            m.elapsed_ns as f64,
        ] {
            has(&value.to_string());
        }
        has(&run.workload.name);
    }
    for word in [
        "bench-host",
        "2 × a processor",
        "Linux 6.1",
        "2026-11-21 18:59 UTC",
        "10G (10,737,418,240 bytes)",
        "512 bytes, 4096 beneath",
        "a stream",
        "Q 111 · K 234 · D 1,000 · G 1,234",
    ] {
        has(word);
    }
}

#[test]
fn a_sweep_says_what_to_type() {
    let page = html(&[sweep(6)], None, 0.05);
    let text = words(&page).join("");
    for part in [
        "iscsivmk_LunQDepth=64",
        "node.session.queue_depth = 64",
        "?queue_depth=64",
        "No difference was found for max-io=32K",
        "queue_depth=64 gives 1.50× the accesses per second of max-io=none queue_depth=32",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert!(
        !text.contains("DiskMaxIOSize"),
        "what does not matter is not to be typed"
    );
}

#[test]
fn one_round_recommends_nothing_and_says_why() {
    let text = words(&html(&[sweep(1)], None, 0.05)).join("");
    assert!(text.contains("nothing is certainly better than") && text.contains("cannot tell"));
    assert!(!text.contains("What to type"));
}

#[test]
fn results_made_apart_are_compared_with_the_first() {
    let page = html(
        &[plain("before", 5, 1.0), plain("after", 5, 1.3)],
        None,
        0.05,
    );
    let text = words(&page).join("");
    assert!(
        text.contains("after against before: of 16 figures"),
        "{text}"
    );
    assert!(text.contains("run apart, 5 and 5 runs"));
    let body = body(&page);
    let document = Document::parse(&body).expect("well-formed");
    let cells = document
        .descendants()
        .filter(|node| node.attribute("class") == Some("verdict better"));
    assert!(cells.count() >= 8, "accesses and latency of four workloads");
}

#[test]
fn the_share_of_the_wire_is_that_of_the_busier_direction() {
    let source = plain("a", 1, 1.0);
    let bytes_per_s = source.results.runs[0].measurement.read_bytes_per_s() * 4.0;
    let wire = Wire {
        bytes_per_s,
        known_from: "a test".into(),
    };
    let text = words(&html(&[source], Some(&wire), 0.05)).join("\n");
    assert!(text.contains("· 25 % of the wire"), "{text}");
}

#[test]
fn names_of_others_are_text_and_nothing_else() {
    let mut source = sweep(2);
    source.label = HOSTILE.into();
    let results = &mut source.results;
    (results.target.name, results.tool, results.machine.host) =
        (HOSTILE.into(), HOSTILE.into(), HOSTILE.into());
    results.machine.kernel = HOSTILE.into();
    results.machine.processor = HOSTILE.into();
    for settings in results
        .plan
        .iter_mut()
        .chain(results.runs.iter_mut().map(|run| &mut run.settings))
    {
        settings.insert(HOSTILE.into(), HOSTILE.into());
    }
    for run in &mut results.runs {
        run.workload.name = HOSTILE.into();
        run.workload.streams[0].specification.name = HOSTILE.into();
        run.measurement.streams[0].name = HOSTILE.into();
        run.measurement.failures = nothing().measurement.failures;
    }
    let other = Source {
        label: "b".into(),
        ..source.clone()
    };
    for page in [
        html(&[source.clone()], None, 0.05),
        html(&[source, other], None, 0.05),
    ] {
        let body = body(&page);
        let document = Document::parse(&body).expect("well-formed");
        let scripts: Vec<Node<'_, '_>> = document
            .descendants()
            .filter(|node| node.has_tag_name("script"))
            .collect();
        assert_eq!(scripts.len(), 1);
        assert_eq!(scripts[0].attributes().len(), 0);
        assert_eq!(page.matches("<script").count(), 1);
        assert_eq!(
            page.matches("</title>").count(),
            1 + body.matches("</title>").count()
        );
        assert!(page.contains("&lt;script src="));
    }
}

#[test]
fn the_page_asks_nobody_and_runs_one_known_script() {
    let digest = Sha256::digest(page::SCRIPT.as_bytes());
    let expected = format!("script-src 'sha256-{}'", base64(&digest));
    for page in pages() {
        assert!(
            page.contains(&expected),
            "after a change of sort.js, {expected} belongs into sort.js.sha256"
        );
        assert!(page.contains("default-src 'none'"));
        for word in ["http://", "https://", "url(", "@import", "src="] {
            assert!(
                !page.replace(&maud_escaped(HOSTILE), "").contains(word),
                "{word}"
            );
        }
    }
}

fn maud_escaped(text: &str) -> String {
    maud::html! { (text) }.into_string()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |word, index| {
            word << 8 | u32::from(chunk.get(index).copied().unwrap_or(0))
        });
        for index in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * index) & 63) as usize];
            text.push(if index > chunk.len() {
                '='
            } else {
                char::from(letter)
            });
        }
    }
    text
}

#[test]
fn the_same_results_give_the_same_bytes() {
    assert_eq!(pages(), pages());
}

#[test]
fn many_settings_share_a_pale_colour_but_the_first_and_the_best() {
    let values: Vec<String> = (1..=12).map(|depth: u32| depth.to_string()).collect();
    let plan = plan::settings(&[("queue_depth".to_owned(), values)], Design::OneAtATime);
    let workload = &profile::find("vmktree").expect("built in").workloads[0];
    let mut runs = Vec::new();
    for (round, setting) in plan::schedule(plan.len(), 4, 1) {
        let speed = if setting == 7 { 2.0 } else { 1.0 };
        runs.push(run(workload, &plan[setting], round, speed));
    }
    let page = html(&[source("many", plan, runs)], None, 0.05);
    let legend = page
        .split("legend series")
        .nth(1)
        .and_then(|rest| rest.split("</p>").next())
        .expect("a legend");
    assert!(
        legend.contains("queue_depth=1 ") && legend.contains("queue_depth=8 "),
        "{legend}"
    );
    assert!(legend.contains("all others") && !legend.contains("queue_depth=5"));
}
