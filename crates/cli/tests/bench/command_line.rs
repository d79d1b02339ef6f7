//! Tests of the verbs from outside: their refusals, their output, and the files they leave behind.

use std::ffi::OsString;
use std::path::Path;

use bench::network::server::Background;
use cli::{Program, Terminal, run_client};

struct Ran {
    code: u8,
    out: String,
    err: String,
}

fn run(line: &str) -> Ran {
    let words = std::iter::once("sandstone").chain(line.split('|').map(str::trim));
    let words: Vec<OsString> = words.map(OsString::from).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let terminal = Terminal {
        out: &mut out,
        err: &mut err,
        ask: None,
        width: None,
    };
    let code = run_client(&Program::of_clients(), words, terminal);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran {
        code,
        out: text(out),
        err: text(err),
    }
}

/// Runs a measurement that ends at once. Words are separated by bars.
fn quick(target: &str, rest: &str) -> Ran {
    run(&format!(
        "bench | run | {target} | --block | 4K | --time | 100ms | --ramp-up | 0 | {rest}"
    ))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn data_of_others_is_destroyed_only_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let mut content = vec![0; 1 << 20];
    content[1080..1082].copy_from_slice(&[0x53, 0xef]);
    std::fs::write(&path, &content).unwrap();
    let ran = quick(text(&path), "--reads | 0");
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("an ext2, ext3 or ext4 file system"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("--destroy-data"), "{}", ran.err);
    assert_eq!(
        std::fs::read(&path).unwrap(),
        content,
        "nothing was touched"
    );
    let ran = quick(text(&path), "--reads | 100");
    assert_eq!(ran.code, 0, "reading destroys nothing: {}", ran.err);
    let ran = quick(text(&path), "--reads | 100 | --fill");
    assert_eq!(ran.code, 1, "filling writes");
    assert_eq!(std::fs::read(&path).unwrap(), content);
    let ran = quick(text(&path), "--reads | 0 | --destroy-data");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("overwriting"), "{}", ran.err);
    assert_ne!(std::fs::read(&path).unwrap(), content);
}

#[test]
fn a_file_of_its_own_is_made_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new");
    let ran = quick(
        text(&path),
        "--size | 8M | --reads | 50 | --random | 100 | --verify | --fill",
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains(" 0 wrong"), "{}", ran.err);
    assert!(!path.exists());
    let ran = quick(text(&path), "--size | 8M | --keep");
    assert!(ran.code == 0 && path.exists());
    let ran = quick(text(&path), "--size | 8M");
    assert!(
        ran.code == 1 && ran.err.contains("exists already"),
        "{}",
        ran.err
    );
    assert!(path.exists(), "it is not ours");
}

#[test]
fn results_are_saved_compared_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("a.json");
    let ran = quick(
        "memory:16M",
        &format!(
            "--repeat | 3 | --save | {} | -H | -o | round,errors",
            text(&saved)
        ),
    );
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "0\t0\n1\t0\n2\t0\n"),
        "{}",
        ran.err
    );
    let results: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(results["format"], 1);
    assert_eq!(results["runs"].as_array().unwrap().len(), 3);
    assert_eq!(results["runs"][2]["parameters"]["seed"], 3);
    let compared = run(&format!(
        "bench | compare | {0} | {0} | -H | -o | figure,verdict",
        text(&saved)
    ));
    assert_eq!(compared.code, 0, "{}", compared.err);
    // A result does not differ from itself; runs so short may differ too much among themselves to
    // tell.
    let mut rows = compared.out.lines().filter_map(|row| row.split_once('\t'));
    assert!(
        rows.all(|(_, verdict)| ["no difference", "cannot tell"].contains(&verdict)),
        "{}",
        compared.out
    );
    assert!(compared.out.starts_with("iops\t"), "{}", compared.out);
    let csv = folder.path().join("a.csv");
    let ran = run(&format!(
        "bench | export | {} | --as | csv | --output | {}",
        text(&saved),
        text(&csv)
    ));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = run(&format!("bench | import | {}", text(&csv)));
    let imported: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(imported["runs"].as_array().unwrap().len(), 3);
    assert_eq!(
        imported["runs"][0]["workload"]["name"],
        results["runs"][0]["workload"]["name"]
    );
    let fio = run(&format!("bench | export | {} | --as | fio", text(&saved)));
    let fio: serde_json::Value = serde_json::from_str(&fio.out).unwrap();
    assert_eq!(fio["jobs"].as_array().unwrap().len(), 3);
}

#[test]
fn files_that_programs_of_windows_saved_are_imported() {
    let folder = tempfile::tempdir().unwrap();
    let icf = folder.path().join("night.icf");
    let key = "'Assigned access specs\n";
    let configuration = include_str!("../../../iometer/src/read/new.icf")
        .replace("File Server", "Größe")
        .replacen(key, &format!("{key}\tBackup 256K read\n"), 1);
    let code_page: Vec<u8> = configuration.chars().map(|c| c as u32 as u8).collect();
    std::fs::write(&icf, code_page).unwrap();
    let disk = folder.path().join("disk");
    let file = std::fs::File::create(&disk).unwrap();
    file.set_len(16 << 30).unwrap();
    for ran in [
        run(&format!("bench | import | {}", text(&icf))),
        run(&format!(
            "bench | run | {} | --profile | {} | --dry-run",
            text(&disk),
            text(&icf)
        )),
    ] {
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains("Größe"), "{}", ran.out);
        assert!(ran.err.contains("Backup 256K read"), "{}", ran.err);
    }
    let csv = folder.path().join("results.csv");
    let plain = include_str!("../../../iometer/src/results/two_tests.csv");
    let german = plain.replace(',', ";").replace('.', ",");
    let imported = |contents: &[u8]| {
        std::fs::write(&csv, contents).unwrap();
        let ran = run(&format!("bench | import | {}", text(&csv)));
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let results: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        (results["runs"].clone(), results["tool"].clone())
    };
    let unicode: Vec<u8> = format!("\u{feff}{}", german.replace(';', "\t"))
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let expected = imported(plain.as_bytes());
    assert_eq!(expected.0.as_array().unwrap().len(), 2);
    assert_eq!(imported(format!("\u{feff}{german}").as_bytes()), expected);
    assert_eq!(imported(&unicode), expected);
    std::fs::write(&csv, german.replacen("48,250000", "48. Mai", 1)).unwrap();
    let ran = run(&format!("bench | import | {}", text(&csv)));
    assert!(
        ran.code == 1 && ran.err.contains("line 15: "),
        "{}",
        ran.err
    );
}

#[test]
fn profiles_go_to_iometer_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let icf = folder.path().join("vmktree.icf");
    let ran = run(&format!(
        "bench | export | vmktree | --as | icf | --output | {}",
        text(&icf)
    ));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(
        std::fs::read_to_string(&icf)
            .unwrap()
            .starts_with("Version 1.1.0")
    );
    let preview = run(&format!(
        "bench | run | memory:1G | --profile | {} | --dry-run",
        text(&icf)
    ));
    assert_eq!(preview.code, 0, "{}", preview.err);
    assert!(
        preview
            .out
            .contains("RealLife-60%Rand-65%Read: reads and WRITES"),
        "{}",
        preview.out
    );
    std::fs::write(&icf, "Version 1.1.0\nnonsense\n").unwrap();
    let ran = run(&format!("bench | import | {}", text(&icf)));
    assert!(
        ran.code == 1 && ran.err.contains("line 2: expected a section"),
        "{}",
        ran.err
    );
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_done() {
    for (target, rest, words) in [
        (
            "memory:16M",
            "--working-set | 1G",
            "beyond the device of 16M",
        ),
        ("memory:16M", "--max-io | 1000", "multiple of 512"),
        ("memory:16M", "--rate | 0", "not a rate"),
        ("memory:16M | --size | 1M", "", "--size makes a file"),
        ("ftp://x", "", "ftp://"),
        ("memory:64K | --workers | 99", "", "each worker"),
    ] {
        let ran = quick(target, rest.trim_start_matches(" | "));
        let ran = if rest.is_empty() {
            run(&format!("bench | run | {target} | --block | 4K"))
        } else {
            ran
        };
        assert!(
            ran.code == 1 && ran.err.contains(words),
            "{words}: {}",
            ran.err
        );
    }
    let ran = run("bench | run | memory:16M | --profile | nothing");
    assert!(
        ran.code == 1 && ran.err.contains("bench profiles"),
        "{}",
        ran.err
    );
}

#[test]
fn profiles_are_listed() {
    let ran = run("bench | profiles | oltp | -H | -o | size,read%,random%,outstanding");
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "8K\t70\t100\t-\n64K\t0\t0\t1\n")
    );
    assert_eq!(run("bench | profiles | none").code, 1);
}

#[test]
fn knobs_are_listed() {
    let ran = run("bench | knobs | -H");
    assert_eq!(ran.code, 0, "{}", ran.err);
    for expected in [
        "nr_requests\tany target\t128,4\t",
        "sessions\tlogical units\t1,2,5\t",
        "delayed_ack\tlogical units\ton,off\t",
        "volblocksize\tSandstone volumes\t",
    ] {
        assert!(ran.out.contains(expected), "{expected}: {}", ran.out);
    }
}

#[test]
fn a_sweep_tries_every_setting_in_turns_and_says_what_it_found() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("sweep.json");
    let common = "bench | sweep | memory:16M | --block | 64K | --time | 50ms | --ramp-up | 0";
    let knobs = "-k | outstanding=1,8 | -k | max-io=none,4K";
    let preview = run(&format!(
        "{common} | {knobs} | --cross | --repeat | 3 | --dry-run"
    ));
    assert!(
        preview.out.contains("4 settings in 3 rounds"),
        "{} {}",
        preview.out,
        preview.err
    );
    let ran = run(&format!(
        "{common} | {knobs} | --repeat | 3 | -H | -o | setting,figure | --save | {}",
        text(&saved)
    ));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let settings = ["max-io=none outstanding=8", "max-io=4K outstanding=1"];
    let figures = ["iops", "mean-ms", "p99-ms"];
    for setting in settings {
        for figure in figures {
            assert!(
                ran.out.contains(&format!("{setting}\t{figure}\n")),
                "{}",
                ran.out
            );
        }
    }
    let results: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&saved).unwrap()).unwrap();
    let runs = results["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 9);
    let rounds: Vec<u64> = runs
        .iter()
        .map(|run| run["round"].as_u64().unwrap())
        .collect();
    assert_eq!(rounds, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    let pieces = runs
        .iter()
        .find(|run| run["settings"]["max-io"] == "4K")
        .unwrap();
    assert_eq!(pieces["parameters"]["max_io"], 4096);
    let ran = run(&format!("{common} | -k | colour"));
    assert!(
        ran.code == 1 && ran.err.contains("choose from outstanding"),
        "{}",
        ran.err
    );
    let ran = run(&format!("{common} | -k | outstanding=many"));
    assert!(
        ran.code == 1 && ran.err.contains("not a number"),
        "{}",
        ran.err
    );
}

#[test]
fn a_path_that_was_measured_is_the_wire_of_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| text(&folder.path().join(name)).to_owned();
    let (runs, path, page) = (file("runs.json"), file("path.json"), file("page.html"));
    let ran = quick("memory:16M", &format!("--save | {runs}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let server = Background::start(([127, 0, 0, 1], 0).into()).unwrap();
    let address = server.address;
    let ran = run(&format!(
        "bench | network | {address} | --seconds | 1 | --json | --save | {path}"
    ));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let printed: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(printed["format"], 1);
    assert_eq!(
        printed["survey"]["throughput"].as_array().unwrap().len(),
        2,
        "{printed}"
    );
    let kept: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(printed, kept);
    let report = format!("bench | report | {runs} | --output | {page}");
    let ran = run(&format!("{report} | --network | {path}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let html = std::fs::read_to_string(&page).unwrap();
    for part in [
        "<section id=\"path\">",
        &address.to_string(),
        "% of the wire",
        "as bench network measured it",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let ran = run(&format!("{report} | --network | {path} | --link | 10G"));
    assert_eq!(ran.code, 2, "one of both is the wire: {}", ran.err);
}

#[test]
fn what_is_no_measured_path_is_called_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| text(&folder.path().join(name)).to_owned();
    let runs = file("runs.json");
    assert_eq!(quick("memory:16M", &format!("--save | {runs}")).code, 0);
    let bad = file("bad.json");
    let survey = r#"{"server":"192.0.2.1:5201","other_end":"iperf3","source":null,"interface":null,"first_answer_ns":1,
        "program":null,"kernel":null,"path_mtu":null,"path_mtu_missing":null,"throughput":[]}"#;
    let machine = r#"{"host":"h","kernel":"k","processor":"p","cores":1,"memory":1}"#;
    let whole = format!(
        r#"{{"format":1,"tool":"t","started_unix_s":0,"machine":{machine},"survey":{survey},"findings":[]}}"#
    );
    for (content, wrong, next) in [
        (
            "not JSON",
            "holds no result of bench network",
            "bench network HOST --save",
        ),
        (
            "[]",
            "holds no result of bench network",
            "bench network HOST --save",
        ),
        (
            r#"{"start":{},"intervals":[],"end":{}}"#,
            "missing field",
            "bench network HOST --save",
        ),
        (
            r#"{"survey":{}}"#,
            "missing field",
            "bench network HOST --save",
        ),
        (
            r#"{"format":2,"paths":[]}"#,
            "newer version (format 2)",
            "use that version",
        ),
        (
            r#"{"format":0,"survey":{}}"#,
            "has format 0",
            "measure again",
        ),
        (
            whole.as_str(),
            "no throughput in either direction",
            "let the measurement finish",
        ),
    ] {
        std::fs::write(&bad, content).unwrap();
        let ran = run(&format!("bench | report | {runs} | --network | {bad}"));
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{content}");
        for part in [&bad, wrong, next] {
            assert!(ran.err.contains(part), "{part}: {}", ran.err);
        }
    }
    let missing = file("missing.json");
    let ran = run(&format!("bench | report | {runs} | --network | {missing}"));
    assert!(
        ran.code == 1 && ran.err.contains(&format!("could not read {missing}")),
        "{}",
        ran.err
    );
    // Each file is named in the place of the other.
    let ran = run(&format!("bench | report | {runs} | --network | {runs}"));
    assert!(
        ran.code == 1
            && ran
                .err
                .contains("a result of storage, not of a network path"),
        "{}",
        ran.err
    );
    std::fs::write(&bad, &whole).unwrap();
    let ran = run(&format!("bench | report | {bad}"));
    assert!(
        ran.code == 1 && ran.err.contains("as --network FILE"),
        "{}",
        ran.err
    );
}

#[test]
fn a_profile_with_an_amount_runs_to_it_unless_a_time_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("dd.json");
    let common = format!(
        "bench | run | memory:16M | --profile | dd | --only | 64k | --amount | 1M | --save | {}",
        text(&saved)
    );
    for (rest, run_time_ms) in [("", 0), ("| --time | 7s", 7000)] {
        let ran = run(&format!("{common} {rest}"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        let saved = std::fs::read_to_string(&saved).unwrap();
        let results: serde_json::Value = serde_json::from_str(&saved).unwrap();
        let run = &results["runs"][0];
        assert_eq!(run["parameters"]["run_time_ms"], run_time_ms);
        assert_eq!(run["measurement"]["write"]["bytes"], 1 << 20);
    }
    let preview = run("bench | run | memory:16M | --profile | dd | --dry-run");
    assert!(
        preview.out.contains("until the amounts are transferred"),
        "{}",
        preview.out
    );
}

#[test]
fn an_imported_configuration_is_run_as_it_says() {
    let icf = concat!(env!("CARGO_MANIFEST_DIR"), "/../iometer/src/read/new.icf");
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("profile.json");
    let ran = run(&format!(
        "bench | import | {icf} | --output | {}",
        text(&profile)
    ));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let saved = std::fs::read_to_string(&profile).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    let parameters = &saved["parameters"];
    for (name, value) in [
        ("run_time_ms", 330_000u64),
        ("ramp_up_ms", 15_000),
        ("start", 1 << 20),
        ("working_set", 10 << 30),
        ("seed", 77),
    ] {
        assert_eq!(parameters[name], value, "{name}");
    }
    let target = folder.path().join("disk");
    for profile in [icf, text(&profile)] {
        let preview = run(&format!(
            "bench | run | {} | --size | 11G | --profile | {profile} | --dry-run",
            text(&target)
        ));
        let expected = "14 workloads, about 81 min";
        assert!(
            preview.out.contains(expected),
            "{}{}",
            preview.out,
            preview.err
        );
    }
}

#[test]
fn a_sweep_writes_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let common = "bench | sweep | memory:16M | --block | 64K | --time | 20ms | --ramp-up | 0";
    let rest = "-k | outstanding=1,8 | --repeat | 2 | --report";
    let ran = run(&format!("{common} | {rest} | {}", text(&page)));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("The settings that matter") && page.contains("memory:16M"));
    let missing = folder.path().join("missing/page.html");
    let ran = run(&format!("{common} | {rest} | {}", text(&missing)));
    assert!(
        ran.code == 1 && ran.out.is_empty() && ran.err.contains("a folder that exists"),
        "{}",
        ran.err
    );
}
