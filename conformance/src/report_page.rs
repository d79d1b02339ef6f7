//! Lab of the page of `bench report` in a real browser. The page is made of real runs, and viewed
//! light and dark, on a phone, a desktop and paper. The console must be empty, and the page must
//! ask no network for anything.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::bench_network;
use crate::browser::{self, Browser, Screen};
use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::packages::cache_folder;
use crate::machine::process;
use crate::machine::scratch;
use crate::servers::server::{ServerKind, Spec};

const LIMIT: Duration = Duration::from_secs(120);

/// Lab of the page of `bench report`.
pub(crate) const LABS: &[Lab] = &[Lab {
    name: "report-page",
    about: "bench report in chromium: light, dark, phone, paper; no console message, no network request",
    room: Room::Shared,
    run,
}];

const SCREENS: &[(&str, Screen)] = &[
    ("desktop-light", screen(1280, 900, "light")),
    ("desktop-dark", screen(1280, 900, "dark")),
    ("phone-light", screen(390, 844, "light")),
    ("phone-dark", screen(390, 844, "dark")),
    (
        "paper",
        Screen {
            printed: true,
            ..screen(1000, 1400, "dark")
        },
    ),
];

const fn screen(width: u32, height: u32, scheme: &'static str) -> Screen {
    Screen {
        width,
        height,
        scheme,
        printed: false,
    }
}

/// Height of the highest picture in pixels. Higher pictures show no more.
const HIGHEST: u32 = 12_000;

fn run(bench: &Bench) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped("it is about our own page".to_owned()));
    };
    if let Some(reason) = browser::missing() {
        return Ok(Outcome::Skipped(reason));
    }
    let mut server = bench.serve(Spec::default())?;
    let folder = scratch::folder("report")?;
    let pages = make(program, &server.url(0), folder.path())?;
    server.check_alive()?;
    let with_path = pages.iter().filter(|(_, page)| {
        fs::read_to_string(page).is_ok_and(|text| text.contains("<section id=\"path\">"))
    });
    let with_path: Vec<&str> = with_path.map(|(name, _)| *name).collect();
    ensure!(with_path == ["sweep"], "pages with the path: {with_path:?}");
    let kept = cache_folder()?.join("report-page");
    fs::create_dir_all(&kept).context("make the folder of the pictures")?;
    let browser = Browser::start()?;
    let mut pictures = 0;
    for (name, page) in &pages {
        fs::copy(page, kept.join(format!("{name}.html")))?;
        for (screen_name, screen) in SCREENS {
            let what = format!("{name}, {screen_name}");
            let picture = look(&browser, page, *screen).with_context(|| what.clone())?;
            fs::write(kept.join(format!("{name}-{screen_name}.png")), picture)?;
            pictures += 1;
        }
    }
    Ok(Outcome::passed(format!(
        "{} pages of real runs, {pictures} pictures in {}",
        pages.len(),
        kept.display()
    )))
}

/// Measures, and makes three pages. They are of a run, of a sweep with the path that was measured
/// first, and of two runs beside each other.
fn make(program: &Path, url: &str, folder: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    let bench = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.arg("bench").args(arguments);
        process::output(command, LIMIT)
    };
    let file = |name: &str| folder.join(name).display().to_string();
    let short = ["--time", "1s", "--ramp-up", "200ms", "--destroy-data"];
    for (target, repeat, saved) in [("memory:64M", "2", "memory.json"), (url, "2", "iscsi.json")] {
        let (repeat, saved) = (["--repeat", repeat], ["--save", &file(saved)]);
        bench(&[&["run", target][..], &short, &repeat, &saved].concat())?;
    }
    let knobs = [
        "-k",
        "outstanding=1,4,16",
        "-k",
        "pattern=random,zeros",
        "--only",
        "8k",
    ];
    let swept = file("sweep.json");
    let repeat = ["--repeat", "3", "--save", &swept];
    bench(&[&["sweep", url][..], &knobs, &short, &repeat].concat())?;
    let network = file("network.json");
    let (server, port) = bench_network::start_server(program, &folder.join("network.log"))?;
    let path = format!("127.0.0.1:{port}");
    bench(&["network", &path, "--seconds", "1", "--save", &network])?;
    drop(server);
    let page = |name: &'static str, sources: &[&str], more: &[&str]| {
        let output = folder.join(format!("{name}.html"));
        let sources: Vec<String> = sources.iter().map(|source| file(source)).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let shown = output.display().to_string();
        bench(&[&["report", "-o", &shown][..], &sources, more].concat())?;
        anyhow::Ok((name, output))
    };
    Ok(vec![
        page("run", &["iscsi.json"], &["--link", "10G"])?,
        page("sweep", &["sweep.json"], &["--network", &network])?,
        page("two", &["memory.json", "iscsi.json"], &[])?,
    ])
}

/// Opens the page on a screen, checks it for faults, and returns a picture of it.
fn look(browser: &Browser, page: &Path, screen: Screen) -> Result<Vec<u8>> {
    browser.show_on(screen)?;
    // Earlier messages belong to another page.
    browser.open(Path::new("/dev/null"))?;
    browser.console()?;
    browser.requests()?;
    browser.open(page)?;
    let height = number(browser, "return document.documentElement.scrollHeight")?;
    let picture = browser.picture(screen.width, (height as u32).min(HIGHEST))?;
    let width = number(browser, "return document.documentElement.scrollWidth")?;
    ensure!(
        width <= f64::from(screen.width),
        "the page is {width} pixels wide"
    );
    let paper = browser.run("return getComputedStyle(document.body).backgroundColor")?;
    let is_dark = brightness(paper.as_str().unwrap_or_default())? < 0.3;
    ensure!(
        is_dark == (screen.scheme == "dark" && !screen.printed),
        "the paper is {paper}"
    );
    let least = number(browser, SMALLEST_LETTER)?;
    ensure!(least >= 9.0, "letters of {least} pixels in a picture");
    if !screen.printed {
        ensure!(
            browser.run(SORTS)? == true,
            "a click on a heading does not sort"
        );
    }
    let console = browser.console()?;
    ensure!(console.is_empty(), "in the console: {}", console.join("; "));
    let own = format!("file://{}", page.display());
    let mut requests = browser.requests()?;
    ensure!(
        requests.contains(&own),
        "the browser did not tell what was asked for: {requests:?}"
    );
    requests.retain(|address| *address != own && !address.starts_with("data:"));
    ensure!(requests.is_empty(), "asked for: {}", requests.join(", "));
    Ok(picture)
}

/// Script that returns the height of the smallest letters of all pictures, in pixels of the screen.
const SMALLEST_LETTER: &str = "
    let least = 1e9;
    for (const picture of document.querySelectorAll('svg')) {
        const factor = picture.getBoundingClientRect().width / picture.viewBox.baseVal.width;
        for (const text of picture.querySelectorAll('text')) {
            least = Math.min(least, parseFloat(getComputedStyle(text).fontSize) * factor);
        }
    }
    return least;";

/// Script that reports whether two clicks on the first column of figures sort its rows in one
/// order, and then in the other.
const SORTS: &str = "
    const table = document.querySelector('#figures table.sortable');
    const heads = [...table.tHead.rows[0].cells];
    const column = heads.findIndex((head) => head.textContent === 'IOPS');
    const values = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[column].querySelector('data').value));
    heads[column].click();
    const up = values().every((value, index, all) => index === 0 || all[index - 1] <= value);
    heads[column].click();
    const down = values().every((value, index, all) => index === 0 || all[index - 1] >= value);
    return up && down && heads[column].getAttribute('aria-sort') === 'descending';";

fn number(browser: &Browser, script: &str) -> Result<f64> {
    let value = browser.run(script)?;
    value
        .as_f64()
        .with_context(|| format!("no number but {value}"))
}

/// Returns the brightness of `rgb(1, 2, 3)`, from 0 to 1.
fn brightness(colour: &str) -> Result<f64> {
    let inner = colour.trim_start_matches("rgb(").trim_end_matches(')');
    let parts: Vec<f64> = inner
        .split(',')
        .filter_map(|part| part.trim().parse().ok())
        .collect();
    ensure!(parts.len() == 3, "no colour: {colour}");
    Ok(parts.iter().sum::<f64>() / 765.0)
}
