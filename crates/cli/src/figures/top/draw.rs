//! Drawing: the state of the screen as lines. It uses no colour, only reverse and bold, so it looks
//! the same with `NO_COLOR`.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::fields::View;
use super::keys::choosable;
use super::rows::Side;
use super::screen::{Focus, Question, Screen};
use super::table::Sort;

/// Lines above the titles of the table.
pub(super) const HEAD: u16 = 2;

/// Characters of a column of the list of columns.
const LISTED: u16 = 30;
/// Delay of figures that is worth telling.
const LATE: Duration = Duration::from_secs(3);

const REVERSE: Style = Style::new().add_modifier(Modifier::REVERSED);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &mut Screen) {
    let [head, below, titles, body] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
    ])
    .areas(frame.area());
    screen.lay_out(body.width, body.height.into());
    frame.render_widget(Paragraph::new(summary(screen, head.width)), head);
    frame.render_widget(Paragraph::new(second_line(screen)), below);
    match screen.focus {
        Focus::Help(line) => return help(frame, line, titles.union(body)),
        Focus::Fields | Focus::Order => return columns(frame, screen, titles.union(body)),
        Focus::Table | Focus::Question(..) => {}
    }
    let title = format!("{:<1$}", screen.table.header, usize::from(titles.width));
    frame.render_widget(Paragraph::new(Span::styled(title, REVERSE)), titles);
    frame.render_widget(Paragraph::new(lines(screen, body.width)), body);
}

/// Returns the first line: time, side, view, order.
fn summary(screen: &Screen, width: u16) -> Line<'static> {
    let view = screen.view;
    let time = screen.time().unwrap_or_else(|| "--:--:-- UTC".to_owned());
    let side = screen.side.map_or("", Side::name);
    let sort = match screen.layout().sort {
        Sort::Natural => String::new(),
        Sort::Largest(number) => format!("  by {}", view.fields()[number].title),
    };
    let filter = match screen.filter.is_empty() {
        true => String::new(),
        false => format!("  /{}", screen.filter),
    };
    let frozen = if screen.is_frozen { "  FROZEN" } else { "" };
    let left = format!(
        "{time}  {side}: {} ({})  every {} s{sort}{filter}{frozen}",
        view.name(),
        view.letter(),
        screen.delay.as_secs_f64(),
    );
    let right = "h: help  q: quit";
    let room = usize::from(width).saturating_sub(left.chars().count());
    let line = match room > right.len() + 1 {
        true => format!("{left}{right:>room$}"),
        false => left,
    };
    Line::from(Span::styled(line, BOLD))
}

/// Returns the second line: the question that is open, or what went wrong, or a remark.
fn second_line(screen: &Screen) -> Line<'static> {
    if let Focus::Question(question, text) = &screen.focus {
        let asked = match question {
            Question::Delay => "Seconds from update to update: ",
            Question::Width => "Characters of names: ",
            Question::Filter => "Show rows with: ",
            Question::File => "Save in file: ",
        };
        return Line::from(vec![
            Span::styled(asked, BOLD),
            Span::raw(format!("{text}_")),
        ]);
    }
    if let Some(message) = &screen.message {
        return Line::from(Span::styled(message.clone(), BOLD));
    }
    if let Some(trouble) = &screen.trouble {
        let text = format!("No new figures; trying again. {trouble}");
        return Line::from(Span::styled(text, REVERSE));
    }
    if screen.overdue > LATE {
        let seconds = screen.overdue.as_secs();
        let text = format!("No new figures: the daemon has not answered for {seconds} s");
        return Line::from(Span::styled(text, REVERSE));
    }
    let text = match (screen.view, screen.side) {
        _ if !screen.has_figures() => "waiting for the first figures...",
        (View::Hosts, Some(Side::Initiator)) => {
            "An initiator has no hosts: i shows this machine as a target"
        }
        _ if screen.table.lines.is_empty() && !screen.filter.is_empty() => {
            "no row has this text; Esc shows all"
        }
        _ if screen.table.lines.is_empty() => "nothing to show here yet",
        _ => "",
    };
    Line::from(text)
}

fn lines(screen: &Screen, width: u16) -> Vec<Line<'static>> {
    let shown = screen.table.lines.iter().enumerate();
    let shown = shown.skip(screen.first).take(screen.room);
    let lines = shown.map(|(number, line)| match number == screen.selected {
        true => {
            let text = format!("{:<1$}", line.text, usize::from(width));
            Line::from(Span::styled(text, BOLD.add_modifier(Modifier::UNDERLINED)))
        }
        false => Line::from(line.text.clone()),
    });
    lines.collect()
}

/// Draws the list of columns.
fn columns(frame: &mut Frame<'_>, screen: &Screen, area: Rect) {
    let how = match screen.focus {
        Focus::Fields => "A letter shows or hides its column. Any other key goes back.",
        _ => {
            "A small letter moves its column to the right, a capital one to the left. Other keys go back."
        }
    };
    let shown = &screen.layout().columns;
    let fields = screen.view.fields();
    let line = |letter: char, number: usize| {
        let mark = if shown.contains(&number) { '*' } else { ' ' };
        Line::from(format!("{mark} {letter}: {}", fields[number].title))
    };
    let letters: Vec<(char, usize)> = choosable(screen.view).collect();
    let listed: Vec<Line<'static>> = match screen.focus {
        Focus::Fields => letters
            .iter()
            .map(|(letter, n)| line(*letter, *n))
            .collect(),
        _ => {
            let letter = |n: &usize| letters.iter().find(|(_, number)| number == n);
            let present = shown.iter().filter_map(letter);
            present.map(|(letter, n)| line(*letter, *n)).collect()
        }
    };
    let [above, list] = Layout::vertical([Constraint::Length(2), Constraint::Min(0)]).areas(area);
    frame.render_widget(Paragraph::new(how), above);
    // The list goes on in further columns where one column of the screen is too short.
    for (place, part) in listed.chunks(usize::from(list.height.max(1))).enumerate() {
        let x = list.x + LISTED * place as u16;
        if x < list.right() {
            let width = list.right() - x;
            let part_area = Rect { x, width, ..list };
            frame.render_widget(Paragraph::new(part.to_vec()), part_area);
        }
    }
}

const HELP: &[&str] = &[
    "Views:  d adapters (port groups; sessions of an initiator)   u units, or devices",
    "        v hosts and their units   n network   p disks of pools   i other side of the wire",
    "Rows:   arrows, PgUp, PgDn, Home, End, mouse   e or Enter opens and closes   P paths",
    "        / filter   Esc all rows   z freezes the figures, and goes on",
    "Order:  r READS/s  w WRITES/s  R MBREAD/s  T MBWRTN/s  N natural; a click on a title too",
    "        (network: r PKTRX/s  t PKTTX/s  R MbRX/s  T MbTX/s)",
    "Columns: f shows and hides  o moves  9 p50 and p99  L width of names",
    "Other:  s delay   Space updates now   W saves the choice   Ctrl-Z suspends   q quits",
    "",
    "DAVG  milliseconds of a command at the device",
    "KAVG  all other milliseconds in this machine: on the wire, in queues, the answer's departure",
    "QAVG  the part of KAVG in queues",
    "GAVG  DAVG and KAVG together",
    "ACTV  commands that run now; QUED commands that wait for their turn, at the last snapshot",
    "DQLEN commands that all sessions with the unit may have together; of an initiator: the queue",
    "      depth of the device",
    "WQLEN the same of one host, or of one session or path",
    "%USD  ACTV of DQLEN or WQLEN; LOAD: ACTV and QUED, divided by it",
    "AQLEN commands that all sessions of a port group may have together",
    "P50, P99  half of all reads or writes, and 99 of 100, took no longer. Units and port groups",
    "      have them; sessions, hosts and the initiator do not",
    "PORT-ID number of an interface; USED-BY its name and the portals on it; TEAM-PNIC its bond;",
    "      DNAME its bridge",
    "Disks: DAVG is the disk's time, GAVG includes its queue. Columns are too few at times: less",
    "      important ones give way on a narrow screen",
    "",
    "-     the figure is not known, or makes no sense here: units without sessions have no depth,",
    "      and without commands there is no time",
];

fn help(frame: &mut Frame<'_>, line: u16, area: Rect) {
    let last = (HELP.len() as u16).saturating_sub(area.height);
    let lines: Vec<Line<'_>> = HELP.iter().map(|text| Line::from(*text)).collect();
    frame.render_widget(Paragraph::new(lines).scroll((line.min(last), 0)), area);
}

#[cfg(test)]
mod tests;
