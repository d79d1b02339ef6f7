//! Tests of the book: holds, gaps, repetition, acknowledgement, restarts.

use super::*;
use crate::condition as of;
use model::event::Severity;

const SECOND: u64 = 1000;

fn moment(second: u64) -> Moment {
    Moment {
        wall_ms: 1_795_000_000_000 + second * SECOND,
        run_ms: second * SECOND,
    }
}

fn finding(condition: &'static Condition, object: &str) -> Finding {
    Finding {
        condition,
        object: object.to_owned(),
        text: format!("{object} is not well"),
        next: "see to it".to_owned(),
    }
}

/// Evaluates each second from `seconds`, where `holds` tells whether the condition holds.
fn run(
    book: &mut Book,
    condition: &'static Condition,
    seconds: std::ops::Range<u64>,
    holds: impl Fn(u64) -> bool,
) -> Vec<(u64, News)> {
    let mut heard = Vec::new();
    for second in seconds {
        let found = holds(second).then(|| finding(condition, "tank"));
        let news = book.take(found.into_iter().collect(), moment(second));
        heard.extend(news.into_iter().map(|it| (second, it.news)));
    }
    heard
}

#[test]
fn a_condition_opens_after_its_hold_and_its_end_is_told() {
    let mut book = Book::default();
    let heard = run(&mut book, &of::POOL_DEGRADED, 0..200, |second| second < 100);
    assert_eq!(heard, [(10, News::Opened), (130, News::Ended)]);
    assert!(book.open().is_empty());
    let ended = &book.ended()[0];
    assert_eq!(ended.since_ms, moment(0).wall_ms);
    assert_eq!(ended.ended_ms, Some(moment(130).wall_ms));
}

#[test]
fn an_alert_whose_condition_is_over_asks_for_nothing_until_it_ends() {
    let mut book = Book::default();
    run(&mut book, &of::POOL_DEGRADED, 0..51, |_| true);
    assert_eq!(book.open()[0].next, "see to it");
    run(&mut book, &of::POOL_DEGRADED, 51..52, |_| false);
    let over = &book.open()[0];
    assert_eq!(over.text, "This no longer holds: tank is not well");
    assert_eq!(
        over.next,
        "nothing: the alert ends by itself when this has stayed so for 30 s"
    );
    // The words are of this moment: what is kept, and what is told at the end, are the finding.
    let kept = book.kept();
    assert_eq!(kept.open[0].text, "tank is not well");
    let again = Book::restored(kept, moment(0));
    assert_eq!(again.open()[0].next, "see to it");
    run(&mut book, &of::POOL_DEGRADED, 52..53, |_| true);
    assert_eq!(book.open()[0].next, "see to it");
    run(&mut book, &of::POOL_DEGRADED, 53..90, |_| false);
    assert_eq!(book.ended()[0].text, "tank is not well");
}

#[test]
fn what_passes_within_its_hold_is_never_told() {
    let mut book = Book::default();
    let heard = run(&mut book, &of::POOL_DEGRADED, 0..300, |second| second < 9);
    assert_eq!(heard, []);
    assert!(book.ended().is_empty());
}

#[test]
fn what_flaps_is_told_once() {
    let mut book = Book::default();
    let flaps = |second: u64| second < 1000 && second % 10 < 3;
    let heard = run(&mut book, &of::DEVICE_ONE_PATH, 0..2000, flaps);
    let kinds: Vec<News> = heard.iter().map(|(_, news)| *news).collect();
    assert_eq!(kinds, [News::Opened, News::Ended], "{heard:?}");
    // A grave condition is told at once, and not again at each of its ends.
    let mut book = Book::default();
    let heard = run(&mut book, &of::POOL_SUSPENDED, 0..2000, flaps);
    let kinds: Vec<News> = heard.iter().map(|(_, news)| *news).collect();
    assert_eq!((heard[0].0, kinds), (0, vec![News::Opened, News::Ended]));
}

#[test]
fn an_open_alert_is_told_each_day_until_somebody_knows_of_it() {
    let mut book = Book::default();
    let day = AGAIN_MS / SECOND;
    let sampled = |book: &mut Book, from: u64| {
        let mut told = 0;
        for second in (from..from + 3 * day).step_by(20) {
            let found = vec![finding(&of::POOL_DEGRADED, "tank")];
            told += book.take(found, moment(second)).len();
        }
        told
    };
    assert_eq!(sampled(&mut book, 0), 3);
    let number = book.open()[0].number;
    let known = book.acknowledge(number, "root", moment(3 * day)).unwrap();
    assert_eq!(known.acknowledged.unwrap().by, "root");
    assert_eq!(sampled(&mut book, 3 * day), 0);
    assert_eq!(book.acknowledge(number + 1, "root", moment(0)), None);
    // The end of an acknowledged alert is told all the same.
    let news = book.take(Vec::new(), moment(7 * day));
    assert_eq!(news[0].news, News::Ended);
    assert_eq!(book.acknowledge(number, "root", moment(0)), None);
}

#[test]
fn open_alerts_outlive_a_restart() {
    let mut book = Book::default();
    run(&mut book, &of::POOL_DEGRADED, 0..20, |_| true);
    let number = book.open()[0].number;
    book.acknowledge(number, "root", moment(20)).unwrap();
    let json = serde_json::to_string(&book.kept()).unwrap();
    let kept: KeptBook = serde_json::from_str(&json).unwrap();
    let mut after = Book::restored(kept, moment(0));
    assert_eq!(after.open(), book.open());
    // The condition still holds after the restart: nothing is told anew.
    let heard = run(&mut after, &of::POOL_DEGRADED, 0..100, |second| second > 20);
    assert_eq!(heard, []);
    let open = &after.open()[0];
    assert_eq!((open.number, open.acknowledged.is_some()), (number, true));
    // It ended while the daemon was away.
    let mut after = Book::restored(book.kept(), moment(0));
    let heard = run(&mut after, &of::POOL_DEGRADED, 0..100, |_| false);
    assert_eq!(heard, [(31, News::Ended)]);
    let next = run(&mut after, &of::DATA_LOST, 100..101, |_| true);
    assert_eq!(next, [(100, News::Opened)]);
    assert_eq!(after.open()[0].number, number + 1);
}

#[test]
fn an_acknowledgement_that_is_taken_back_counts_no_more() {
    let day = 86_400;
    let mut book = Book::default();
    run(&mut book, &of::POOL_DEGRADED, 0..20, |_| true);
    let number = book.open()[0].number;
    book.acknowledge(number, "root", moment(20)).unwrap();
    let changes = book.changes();
    let open = book.unacknowledge(number).unwrap();
    assert_eq!(open.acknowledged, None);
    assert_eq!(book.changes(), changes + 1, "it is stored");
    assert_eq!(book.unacknowledge(number + 1), None);
    // A second time changes nothing.
    assert_eq!(book.unacknowledge(number), Some(open));
    assert_eq!(book.changes(), changes + 1);
    let again = run(&mut book, &of::POOL_DEGRADED, day..day + 20, |_| true);
    assert_eq!(again.first().map(|(_, news)| *news), Some(News::StillOpen));
}

#[test]
fn a_condition_that_this_version_does_not_know_is_dropped() {
    let kept = KeptBook {
        last_number: 7,
        open: vec![AlertView {
            number: 7,
            condition: "moon-full".to_owned(),
            ..AlertView::default()
        }],
        ended: Vec::new(),
    };
    assert!(Book::restored(kept, moment(0)).open().is_empty());
}

#[test]
fn the_end_of_a_condition_that_became_worse_is_not_told() {
    let mut book = Book::default();
    run(&mut book, &of::POOL_80_PERCENT, 0..100, |_| true);
    let heard = run(&mut book, &of::POOL_90_PERCENT, 100..400, |_| true);
    assert_eq!(heard, [(160, News::Opened)]);
    assert_eq!(book.open().len(), 1);
    assert_eq!(book.ended()[0].condition, "pool-80-percent");
}

#[test]
fn the_gravest_alerts_come_first() {
    let mut book = Book::default();
    let found = vec![
        finding(&of::SCRUB_OVERDUE, "tank"),
        finding(&of::DATA_LOST, "tank"),
        finding(&of::CHECKSUM_ERRORS, "tank a"),
    ];
    book.take(found, moment(0));
    let severities: Vec<Severity> = book.open().iter().map(|it| it.severity).collect();
    use Severity::{Critical, Error, Warning};
    assert_eq!(severities, [Critical, Error, Warning]);
}

#[test]
fn a_clock_that_is_set_back_does_not_silence_an_alert() {
    let mut book = Book::default();
    let found = || vec![finding(&of::DATA_LOST, "tank")];
    book.take(found(), moment(10 * AGAIN_MS / SECOND));
    let back = |run_ms: u64| Moment {
        wall_ms: 1_795_000_000_000 + run_ms,
        run_ms: 10 * AGAIN_MS + run_ms,
    };
    assert!(book.take(found(), back(SECOND)).is_empty());
    let news = book.take(found(), back(SECOND + AGAIN_MS));
    assert_eq!(news[0].news, News::StillOpen);
}

#[test]
fn hostile_objects_take_bounded_memory() {
    let mut book = Book::default();
    let names = 0..2 * MAX_ALERTS;
    let found = names.map(|at| finding(&of::LOGIN_REFUSED_REPEATEDLY, &at.to_string()));
    book.take(found.collect(), moment(0));
    assert_eq!(book.alerts.len(), MAX_ALERTS);
}
