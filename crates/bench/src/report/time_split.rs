//! Parts of the latency in esxtop's words. KAVG is the time on this side of the wire, DAVG the time
//! from the wire to the answer; together they are GAVG. QAVG is the part of KAVG that was spent in
//! the queue.

use maud::{Markup, html};

use super::bars::{Bar, draw};
use super::subject::Subject;
use super::units;

pub(super) fn section(subject: &Subject<'_>) -> Markup {
    if subject
        .runs()
        .all(|(_, run)| run.measurement.esxtop.is_none())
    {
        return html! {};
    }
    html! {
        section id="split" {
            h2 { "Where the time goes" }
            p.note {
                b { "GAVG" } ", the wait of the guest, is " b { "KAVG" } " (on this side of the wire) and " b { "DAVG" }
                " (from the wire to the answer). " b { "QAVG" } " is the part of KAVG in the queue of the device. "
                "A high DAVG points to the array or the network; a high QAVG points to a queue that is too "
                "short for the load, or an array that does not keep up with it."
            }
            p.legend {
                span.entry { span.key.q {} "QAVG" }
                span.entry { span.key.k {} "rest of KAVG" }
                span.entry { span.key.d {} "DAVG" }
            }
            div.panels {
                @if subject.is_single() {
                    @let all = subject.workloads.iter().flat_map(|workload| bars(subject, workload));
                    (draw("Where the time goes", "mean, µs per command", &all.collect::<Vec<_>>(), None))
                } @else {
                    @for workload in &subject.workloads {
                        @let bars = bars(subject, workload);
                        @if !bars.is_empty() { (draw(workload, "mean, µs per command", &bars, None)) }
                    }
                }
            }
        }
    }
}

fn bars(subject: &Subject<'_>, workload: &str) -> Vec<Bar> {
    let of_series = subject.series.iter().filter_map(|series| {
        let splits: Vec<_> = series
            .of(workload)
            .filter_map(|run| run.measurement.esxtop)
            .collect();
        if splits.is_empty() {
            return None;
        }
        let mean = |of: fn(&crate::results::EsxtopLatency) -> f64| {
            splits.iter().map(of).sum::<f64>() / splits.len() as f64
        };
        let (gavg, kavg) = (mean(|split| split.gavg_us), mean(|split| split.kavg_us));
        let (davg, qavg) = (mean(|split| split.davg_us), mean(|split| split.qavg_us));
        let queued = qavg.min(kavg);
        Some(Bar {
            label: match subject.is_single() {
                true => workload.to_owned(),
                false => series.label.clone(),
            },
            parts: vec![
                ("q".to_owned(), queued),
                ("k".to_owned(), kavg - queued),
                ("d".to_owned(), davg),
            ],
            dots: Vec::new(),
            value: format!(
                "Q {} · K {} · D {} · G {}",
                units::number(qavg),
                units::number(kavg),
                units::number(davg),
                units::number(gavg)
            ),
        })
    });
    of_series.collect()
}
