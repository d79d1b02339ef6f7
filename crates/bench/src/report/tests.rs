//! The page as a whole: well-formed, complete, escaped, reproducible, and without requests to
//! anywhere.

use roxmltree::{Document, Node};
use sha2::{Digest as _, Sha256};

use super::{MeasuredPath, Network, Source, Wire, html, page, units};
use crate::measure::latency::Latencies;
use crate::measure::window::Second;
use crate::network::client::{Direction, Tcp, Throughput};
use crate::network::echo::RoundTrips;
use crate::network::interface::Interface;
use crate::network::path_mtu::{Method, PathMtu};
use crate::network::result::NetworkResult;
use crate::network::survey::{Finding, OtherEnd, Survey};
use crate::parameters::Parameters;
use crate::profile;
use crate::random::Random;
use crate::results::{
    CpuTime, DirectionResult, EsxtopLatency, FORMAT, Failures, Machine, Measurement, Results, Run,
    StreamResult, Target,
};
use crate::sweep::plan::{self, Design, Settings};
use crate::workload::Workload;

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

/// Returns a run whose figures depend on a speed, with every possible figure.
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
        reached: None,
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
            ..Target::default()
        },
        plan,
        runs,
        failed: Vec::new(),
    };
    Source {
        label: label.into(),
        results,
    }
}

/// Returns a sweep over two knobs: the queue depth matters, the largest I/O does not.
fn sweep(rounds: u32) -> Source {
    let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    let knobs = [
        ("queue_depth".to_owned(), values(&["32", "64"])),
        ("max-io".to_owned(), values(&["none", "32K"])),
    ];
    let plan = plan::settings(&knobs, Design::OneAtATime, |_| None);
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

/// Returns a path of a gigabit through this interface that carried these MB/s in each direction.
fn measured(label: &str, interface: &str, to_here: f64, from_here: f64) -> MeasuredPath {
    let throughput = |direction, megabytes: f64| Throughput {
        direction,
        parallel: 2,
        seconds: 2.0,
        bytes: (megabytes * 2e6) as u64,
        intervals: Vec::new(),
        retransmits: Some(7),
        tcp: Tcp {
            mss: 8948,
            timestamps: true,
            ..Tcp::default()
        },
        other_end_cpu_percent: 1.0,
    };
    let mut ways = vec![
        throughput(Direction::Send, from_here),
        throughput(Direction::Receive, to_here),
    ];
    ways.retain(|way| way.bytes > 0);
    let survey = Survey {
        server: ([198, 51, 100, 1], 5201).into(),
        other_end: OtherEnd::Sandstone,
        source: Some([198, 51, 100, 2].into()),
        interface: Some(Interface {
            name: interface.into(),
            mtu: 9000,
            bits_per_s: Some(1_000_000_000),
            hardware: true,
        }),
        first_answer_ns: 100_000,
        program: Some(RoundTrips {
            count: 1000,
            min_ns: 41_000,
            median_ns: 43_000,
            p99_ns: 97_000,
            max_ns: 200_000,
        }),
        kernel: None,
        path_mtu: Some(PathMtu {
            asked: 9000,
            passes: Some(9000),
            method: Method::Udp,
        }),
        path_mtu_missing: None,
        throughput: ways,
    };
    let machine = Machine {
        host: "bench-host".into(),
        ..Machine::default()
    };
    MeasuredPath {
        label: label.into(),
        result: NetworkResult::of(survey, machine, 1_795_287_540),
    }
}

/// Returns the body as XML, which is stricter than any browser.
fn body(page: &str) -> String {
    let (from, to) = (
        page.find("<body>").expect("a body"),
        page.find("</body>").expect("its end"),
    );
    page[from..to + "</body>".len()].to_owned()
}

/// Returns all texts and values, in order.
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
    let network = Network::of_link(1e9);
    let paths = Network::measured(vec![
        measured("first", "eth0", 117.0, 110.0),
        measured("second", "eth1", 90.0, 95.0),
    ]);
    let one = [plain("a", 1, 1.0)];
    let two = [plain("before", 5, 1.0), plain("after", 5, 1.3)];
    let many = [sweep(6), plain("b", 2, 1.0)];
    vec![
        html(&one, &Network::default(), 0.05),
        html(&two, &network, 0.05),
        html(&[sweep(6)], &network, 0.05),
        html(&many, &Network::default(), 0.05),
        html(&many, &paths, 0.05),
        html(
            &[source("empty", Vec::new(), Vec::new())],
            &Network::default(),
            0.05,
        ),
        html(
            &[source("nothing measured", Vec::new(), vec![nothing()])],
            &Network::default(),
            0.05,
        ),
    ]
}

/// Returns a run in which no access ended.
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
    let words = words(&html(
        std::slice::from_ref(&source),
        &Network::default(),
        0.05,
    ));
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
    let page = html(&[sweep(6)], &Network::default(), 0.05);
    let text = words(&page).join("");
    for part in [
        "iscsivmk_LunQDepth=64",
        "node.session.queue_depth = 64",
        "initiator device set -d NAA --queue-depth 64",
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
    let text = words(&html(&[sweep(1)], &Network::default(), 0.05)).join("");
    assert!(
        text.contains("no other setting is certainly better than") && text.contains("cannot tell")
    );
    assert!(!text.contains("What to type"));
    let told = "The effect is unknown for queue_depth=64, max-io=32K: runs differ too much";
    assert!(text.contains(told), "{text}");
}

#[test]
fn results_made_apart_are_compared_with_the_first() {
    let page = html(
        &[plain("before", 5, 1.0), plain("after", 5, 1.3)],
        &Network::default(),
        0.05,
    );
    let text = words(&page).join("");
    assert!(
        text.contains("after against before: of 24 figures"),
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
    let measurement = &source.results.runs[0].measurement;
    let (read, written) = (
        measurement.read_bytes_per_s(),
        measurement.write_bytes_per_s(),
    );
    assert_eq!(read, written * 2.0, "reads are two of three");
    let text = |to_here, from_here| {
        let wire = Wire {
            to_here,
            from_here,
            known_from: "a test".into(),
        };
        let network = Network {
            paths: Vec::new(),
            wire: Some(wire),
        };
        words(&html(std::slice::from_ref(&source), &network, 0.05)).join("\n")
    };
    let reads = text(Some(read * 4.0), Some(read * 4.0));
    assert!(reads.contains("· 25 % of the wire"), "{reads}");
    // There are fewer bytes, but they are a larger share of this direction.
    let writes = text(Some(read * 4.0), Some(written * 2.0));
    assert!(writes.contains("· 50 % of the wire"), "{writes}");
    let unknown = text(None, Some(written * 2.0));
    assert!(!unknown.contains("% of the wire"), "{unknown}");
}

/// Returns the content of the path's section, as one text.
fn path_section(page: &str) -> String {
    let body = body(page);
    let document = Document::parse(&body).expect("well-formed");
    let is_it = |node: &Node<'_, '_>| node.attribute("id") == Some("path");
    let section = document.descendants().find(is_it).expect("the section");
    let texts = section.descendants().filter(Node::is_text);
    let texts = texts.filter_map(|node| node.text());
    texts.collect()
}

#[test]
fn a_measured_path_is_shown_and_is_the_wire() {
    let source = plain("a", 1, 1.0);
    let read = source.results.runs[0].measurement.read_bytes_per_s();
    let path = measured("link", "eth0", read * 2e-6, read * 4e-6);
    let network = Network::measured(vec![path.clone()]);
    let page = html(std::slice::from_ref(&source), &network, 0.05);
    let text = words(&page).join("");
    assert!(text.contains("· 50 % of the wire"), "{text}");
    assert!(
        text.contains("as bench network measured it, not the nominal speed of a link"),
        "{text}"
    );
    let section = path_section(&page);
    for part in [
        "198.51.100.1:5201 (sandstone)",
        "bench-host, 198.51.100.2",
        "eth0, MTU 9,000, nominally 1.00 Gb/s",
        "over 2 connections, 7 segments sent again",
        "half within 43.0 µs, 99 of 100 within 97.0 µs, least 41.0 µs",
        "round trip between kernelsnot measured",
        "8,948 bytes",
        "yes: packets of 9,000 bytes pass whole, both ways",
        "2026-11-21 18:59 UTC",
    ] {
        assert!(section.contains(part), "{part} in {section}");
    }
    assert!(!section.contains("Added up"), "one path is no sum");
    let carried = path.result.survey.carried(Direction::Receive);
    let exact = carried.expect("measured").to_string();
    assert!(words(&page).contains(&exact), "{exact}");
    // The path is slower than its nominal speed, which people should know.
    let slow = "MB/s from the other end is 4 % of what this wire carries";
    assert!(text.contains(slow), "{text}");
    assert!(!html(&[source], &Network::default(), 0.05).contains("id=\"path\""));
}

#[test]
fn paths_add_up_where_they_share_no_wire() {
    let add = |paths| Network::measured(paths).wire.expect("measured");
    let two = vec![
        measured("a", "eth0", 100.0, 110.0),
        measured("b", "eth1", 90.0, 95.0),
    ];
    let wire = add(two.clone());
    assert_eq!((wire.to_here, wire.from_here), (Some(190e6), Some(205e6)));
    assert!(wire.known_from.contains("the sum of 2 paths"), "{wire:?}");
    let section = path_section(&html(&[plain("r", 1, 1.0)], &Network::measured(two), 0.05));
    assert!(
        section.contains("for reads 100 + 90.0 = 190 MB/s; for writes 110 + 95.0 = 205 MB/s"),
        "{section}"
    );
    let shared = vec![
        measured("a", "eth0", 100.0, 110.0),
        measured("b", "eth0", 104.0, 95.0),
    ];
    let wire = add(shared.clone());
    assert_eq!((wire.to_here, wire.from_here), (Some(104e6), Some(110e6)));
    let page = html(&[plain("r", 1, 1.0)], &Network::measured(shared), 0.05);
    let section = path_section(&page);
    assert!(
        section.contains("a and b leave through eth0 and share its wire, so they are not added"),
        "{section}"
    );
    // Of two paths, only one was measured in this direction.
    let half = vec![
        measured("a", "eth0", 100.0, 110.0),
        measured("b", "eth1", 0.0, 95.0),
    ];
    let wire = add(half);
    assert_eq!((wire.to_here, wire.from_here), (None, Some(205e6)));
}

#[test]
fn a_path_that_does_not_carry_jumbo_frames_is_to_be_minded() {
    let mut path = measured("link", "eth0", 117.0, 117.0);
    path.result.survey.path_mtu = Some(PathMtu {
        asked: 9000,
        passes: Some(1500),
        method: Method::Icmp,
    });
    path.result.findings = path.result.survey.findings();
    path.result.machine.host = "other-host".into();
    let network = Network::measured(vec![path]);
    let page = html(&[plain("r", 1, 1.0)], &network, 0.05);
    let section = path_section(&page);
    assert!(
        section.contains("no: 9,000 bytes are set on this end, and only 1,500 pass whole"),
        "{section}"
    );
    let text = words(&page).join("");
    for part in [
        "link: an MTU of 9000 is set on this end, but only 1500 bytes pass",
        "the path was measured from other-host, and the storage from bench-host",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
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
    let mut path = measured(HOSTILE, HOSTILE, 100.0, 100.0);
    path.result.survey.path_mtu = None;
    path.result.survey.path_mtu_missing = Some(HOSTILE.into());
    path.result.machine.host = HOSTILE.into();
    path.result.findings = vec![Finding {
        is_wrong: true,
        text: HOSTILE.into(),
    }];
    let network = Network::measured(vec![path.clone(), path]);
    for page in [
        html(&[source.clone()], &network, 0.05),
        html(&[source, other], &Network::default(), 0.05),
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
    let plan = plan::settings(
        &[("queue_depth".to_owned(), values)],
        Design::OneAtATime,
        |_| None,
    );
    let workload = &profile::find("vmktree").expect("built in").workloads[0];
    let mut runs = Vec::new();
    for (round, setting) in plan::schedule(plan.len(), 4, 1) {
        let speed = if setting == 7 { 2.0 } else { 1.0 };
        runs.push(run(workload, &plan[setting], round, speed));
    }
    let page = html(&[source("many", plan, runs)], &Network::default(), 0.05);
    let legend = page
        .split("legend series")
        .nth(1)
        .and_then(|rest| rest.split("</p>").next())
        .expect("a legend");
    assert!(
        legend.contains("queue_depth=1<") && legend.contains("queue_depth=8<"),
        "{legend}"
    );
    assert!(legend.contains("all others") && !legend.contains("queue_depth=5"));
}

#[test]
fn no_table_is_wider_than_a_page_and_every_cell_says_what_it_is_of() {
    assert_eq!(
        [1, 9, 10, 18, 19].map(|all| units::columns(all, 9)),
        [1, 9, 5, 9, 7]
    );
    let mut tables = 0;
    for page in pages() {
        for table in page.split("<div class=\"scroll\"><table").skip(1) {
            let table = table.split("</table>").next().unwrap_or_default();
            let is_facts = table.starts_with(" class=\"facts\"");
            let (head, rows) = table.split_once("<tbody>").expect("a body");
            // There are the names of a run and nine figures: as much as 1,280 pixels show.
            let columns = head.matches("<th").count() - head.matches("<thead").count();
            assert!(is_facts || columns <= 12, "{columns} columns: {head}");
            // A phone shows a cell below its row's heading, with this text before it.
            let cells = rows.matches("<td").count();
            assert_eq!(rows.matches("data-label=").count(), cells, "{rows}");
            tables += 1;
        }
    }
    assert!(tables > 10, "{tables}");
}
