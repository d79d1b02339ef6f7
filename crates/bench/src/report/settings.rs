//! Settings that matter: the best ones in a sweep, how sure this is, and the commands that set
//! them.

use maud::{Markup, html};

use super::subject::{Contrast, Subject};
use super::units;
use super::verdicts::{class, sign};
use crate::compare::{Figure, Verdict};
use crate::sweep::knob::{Commands, Names, Registry};
use crate::sweep::session_knobs::session_knobs;
use crate::sweep::verdict::Best;

pub(super) fn section(subject: &Subject<'_>) -> Markup {
    if subject.best.is_empty() {
        return html! {};
    }
    let turned = turned(subject);
    html! {
        section id="settings" {
            h2 { "The settings that matter" }
            @for (source, best) in &subject.best { (table(subject, *source, best)) }
            @let idle = idle(subject);
            @if !idle.is_empty() {
                p { b { "No difference was found" } " for " (idle.join(", ")) ". Leave these as they are." }
            }
            @let unknown = unknown(subject);
            @if !unknown.is_empty() {
                p {
                    b { "The effect is unknown" } " for " (unknown.join(", ")) ": runs differ too much among themselves, or are too few. "
                    "Sweep with a larger " code { "--repeat" } ", or a longer " code { "--time" } "."
                }
            }
            @if !turned.is_empty() {
                h3 { "What to type" }
                p.note {
                    "Replace the words in capitals: " code { "NAA" } " is the name of the device in " code { "esxcli storage nmp device list" }
                    ", " code { "VENDOR" } " and " code { "MODEL" } " are those of your array's INQUIRY data, "
                    code { "vmhbaN" } " and " code { "vmkN" } " are your adapter and vmkernel port, "
                    code { "DEVICE" } " is the disk as in " code { "/sys/block" } "."
                }
                @for turned in &turned { (typed(turned, &names(subject, turned.source))) }
            }
        }
    }
}

const RATE: &str = "accesses per second";
const MEAN: &str = "mean latency";
const SURE: &str = "how sure";

fn table(subject: &Subject<'_>, source: usize, best: &[Best]) -> Markup {
    html! {
        div.scroll { table {
            caption { "The best setting for each workload" @if subject.sources.len() > 1 { " in " (subject.sources[source].label) } }
            thead { tr {
                th scope="col" { "workload" }
                th.words scope="col" { "use" } th scope="col" { (RATE) }
                th scope="col" { (MEAN) } th scope="col" { (SURE) }
            } }
            tbody { @for best in best { tr {
                th scope="row" { (best.workload) }
                (found(subject, source, best))
            } } }
        } }
    }
}

fn found(subject: &Subject<'_>, source: usize, best: &Best) -> Markup {
    let index = subject.find(source, &best.settings);
    let contrast = subject
        .contrasts
        .iter()
        .find(|contrast| Some(contrast.series) == index);
    let (Some(contrast), Some(index)) = (contrast, index) else {
        let label = index.map_or("", |index| &subject.series[index].label);
        return html! {
            td.words data-label="use" { code { (label) } " as at the start" }
            td.same colspan="3" data-label=(SURE) { "= no other setting is certainly better" }
        };
    };
    let row = |figure| {
        let rows = &mut contrast.comparison.rows.iter();
        let row = rows.find(|row| row.workload == best.workload && row.figure == figure);
        row.and_then(|row| Some((row, row.ratio?)))
    };
    html! {
        td.words data-label="use" { code { (subject.series[index].label) } }
        @match row(Figure::Iops) {
            Some((_, ratio)) => td.better data-label=(RATE) { "▲ " (units::change(ratio.estimate)) },
            None => td data-label=(RATE) { "–" },
        }
        @match row(Figure::MeanMs) {
            Some((row, ratio)) => td class=(class(row.verdict)) data-label=(MEAN) {
                (sign(row)) " " (units::change(ratio.estimate))
            },
            None => td data-label=(MEAN) { "–" },
        }
        @match row(Figure::Iops) {
            Some((row, ratio)) => td.words data-label=(SURE) {
                (units::change(ratio.low)) " to " (units::change(ratio.high)) " more accesses, from " (row.runs.1) " rounds"
            },
            None => td data-label=(SURE) { "–" },
        }
    }
}

/// Lists series in which no figure differs from the base.
fn idle(subject: &Subject<'_>) -> Vec<String> {
    of_sweeps(subject, |contrast| {
        let rows = &contrast.comparison.rows;
        !rows.is_empty() && rows.iter().all(|row| row.verdict == Verdict::NoDifference)
    })
}

/// Lists series for which the number of accesses may differ from the base or not.
fn unknown(subject: &Subject<'_>) -> Vec<String> {
    of_sweeps(subject, |contrast| {
        let mut rows = contrast.comparison.rows.iter();
        rows.any(|row| row.figure == Figure::Iops && row.verdict == Verdict::CannotTell)
    })
}

/// Lists the varied settings of sweeps that satisfy `is_like_this`.
fn of_sweeps(subject: &Subject<'_>, is_like_this: impl Fn(&Contrast) -> bool) -> Vec<String> {
    let in_sweep = |contrast: &&Contrast| {
        subject.series[contrast.base].source == subject.series[contrast.series].source
    };
    let contrasts = subject.contrasts.iter().filter(in_sweep);
    contrasts
        .filter(|contrast| is_like_this(contrast))
        .map(|contrast| subject.series[contrast.series].label.clone())
        .collect()
}

/// Knob that some best setting has changed from the start.
struct Turned {
    /// Index of the file whose unit it concerns.
    source: usize,
    name: String,
    value: String,
    /// Workloads for which the setting is best.
    workloads: Vec<String>,
}

/// Returns the names that commands for a file's unit need.
fn names<'a>(subject: &Subject<'a>, source: usize) -> Names<'a> {
    Names::of(&subject.sources[source].results.target)
}

/// Lists every knob that some best setting has changed from the start.
fn turned(subject: &Subject<'_>) -> Vec<Turned> {
    let mut turned: Vec<Turned> = Vec::new();
    for (source, best) in &subject.best {
        let Some(start) = subject
            .series
            .iter()
            .find(|series| series.source == *source)
        else {
            continue;
        };
        for best in best {
            for (name, value) in &best.settings {
                if start.settings.get(name) == Some(value) {
                    continue;
                }
                let known = turned.iter_mut().find(|known| {
                    let is_same_unit = names(subject, known.source) == names(subject, *source);
                    known.name == *name && known.value == *value && is_same_unit
                });
                match known {
                    Some(known) => known.workloads.push(best.workload.clone()),
                    None => turned.push(Turned {
                        source: *source,
                        name: name.clone(),
                        value: value.clone(),
                        workloads: vec![best.workload.clone()],
                    }),
                }
            }
        }
    }
    turned
}

fn typed(turned: &Turned, of: &Names<'_>) -> Markup {
    let Turned {
        name,
        value,
        workloads,
        ..
    } = turned;
    let mut registry = Registry::of_every_target();
    session_knobs().for_each(|knob| registry.add(knob));
    let knob = registry.find(name);
    let about = knob.map(|knob| knob.about());
    let commands = knob.map(|knob| knob.commands(value, of));
    let Commands {
        esxi,
        linux,
        sandstone,
    } = commands.unwrap_or_default();
    let systems = [("ESXi", esxi), ("Linux", linux), ("Sandstone", sandstone)];
    html! {
        h4 { code { (name) " = " (value) } " " @if let Some(about) = about { (about) } }
        p.note { "For " (workloads.join(", ")) "." }
        dl.typed {
            @for (system, command) in &systems {
                @if let Some(command) = command { dt { (system) } dd { pre { code { (command) } } } }
            }
            @if systems.iter().all(|(_, command)| command.is_none()) {
                dt { "Anywhere" } dd { "Nothing to type: the knob is a property of the load." }
            }
        }
    }
}
