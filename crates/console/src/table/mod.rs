//! Tables: every list of the console. A table is a window of 60 rows, which the server sorts,
//! filters and cuts, so thousands of objects neither load slowly nor freeze a browser.

mod cell;
mod export;
mod view;

use maud::{Markup, html};

pub(crate) use cell::Cell;
pub(crate) use view::{View, WINDOW};

use crate::answer::Answer;
use crate::format;
use crate::visit::Visit;
use cell::Order;

/// Function that makes the cell of a row.
type Make<'a, T> = Box<dyn Fn(&T) -> Cell + 'a>;

/// Column of a table.
pub(crate) struct Column<'a, T> {
    key: &'static str,
    title: &'static str,
    is_figure: bool,
    is_sorted: bool,
    live: Option<usize>,
    make: Make<'a, T>,
}

impl<'a, T> Column<'a, T> {
    /// Returns a column of texts.
    pub(crate) fn text(
        key: &'static str,
        title: &'static str,
        make: impl Fn(&T) -> Cell + 'a,
    ) -> Self {
        let make = Box::new(make);
        Self {
            key,
            title,
            is_figure: false,
            is_sorted: true,
            live: None,
            make,
        }
    }

    /// Returns a column of figures, which stand at the right and sort the greatest first.
    pub(crate) fn figure(
        key: &'static str,
        title: &'static str,
        make: impl Fn(&T) -> Cell + 'a,
    ) -> Self {
        Self {
            is_figure: true,
            ..Self::text(key, title, make)
        }
    }

    /// Returns a column of buttons, which is neither sorted nor exported.
    pub(crate) fn buttons(title: &'static str, make: impl Fn(&T) -> Cell + 'a) -> Self {
        Self {
            is_sorted: false,
            ..Self::text("", title, make)
        }
    }

    /// Shows a cell. A text takes the room that it needs, up to a bound, where it breaks.
    fn show(&self, cell: &Cell) -> Markup {
        match self.is_figure {
            true => cell.show(),
            false => cell.show_text(),
        }
    }

    /// Marks the column as the place of a live figure, by its number among those of the object.
    pub(crate) fn live(self, number: usize) -> Self {
        Self {
            live: Some(number),
            ..self
        }
    }
}

/// Table of a list.
pub(crate) struct Table<'a, T> {
    /// Word for a row, in the singular: `unit`.
    pub(crate) word: &'static str,
    /// Columns, the name of the object first.
    pub(crate) columns: Vec<Column<'a, T>>,
    /// All rows, in their own order.
    pub(crate) rows: Vec<T>,
    /// Number of the object in the stream of live figures; empty if the table has none.
    pub(crate) id: fn(&T) -> String,
    /// Words where there is no object at all: they say what to do.
    pub(crate) empty: Markup,
}

/// Rows of a window.
struct Window<'t, T> {
    rows: Vec<&'t T>,
    matching: usize,
    offset: usize,
}

impl<T> Table<'_, T> {
    /// Returns all rows that match as a file, if the query asks for one.
    pub(crate) fn exported(&self, visit: &Visit, view: &View) -> Option<Answer> {
        let columns: Vec<&Column<'_, T>> = self.columns.iter().filter(|it| it.is_sorted).collect();
        let cells = || {
            let rows = self.matching(view);
            let of = |row: &&T| columns.iter().map(|column| (column.make)(row)).collect();
            rows.iter().map(of).collect::<Vec<Vec<Cell>>>()
        };
        let (ending, content_type, content) = match visit.query.get("format") {
            "csv" => {
                let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
                (
                    "csv",
                    "text/csv; charset=utf-8",
                    export::csv(&titles, &cells()),
                )
            }
            "json" => {
                let keys: Vec<&str> = columns.iter().map(|column| column.key).collect();
                ("json", "application/json", export::json(&keys, &cells()))
            }
            _ => return None,
        };
        let name = format!("{}s.{ending}", self.word.replace(' ', "-"));
        Some(Answer::File {
            name,
            content_type,
            content,
        })
    }

    /// Returns the numbers of the objects in the window, for the stream of live figures.
    pub(crate) fn ids(&self, view: &View) -> Vec<String> {
        self.window(view).rows.into_iter().map(self.id).collect()
    }

    /// Returns the rows that match the filter, in the order of the view.
    pub(crate) fn matching(&self, view: &View) -> Vec<&T> {
        let words: Vec<String> = view
            .q
            .to_lowercase()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let fits = |row: &&T| {
            let texts = self.columns.iter().filter(|column| !column.is_figure);
            let texts: Vec<String> = texts
                .map(|column| (column.make)(row).text.to_lowercase())
                .collect();
            words
                .iter()
                .all(|word| texts.iter().any(|text| text.contains(word)))
        };
        let mut rows: Vec<&T> = match words.is_empty() {
            true => self.rows.iter().collect(),
            false => self.rows.iter().filter(fits).collect(),
        };
        let column = self
            .columns
            .iter()
            .find(|it| it.is_sorted && !it.key.is_empty() && it.key == view.sort);
        if let Some(column) = column {
            let keyed = rows.into_iter().map(|row| ((column.make)(row).order, row));
            let mut keyed: Vec<(Order, &T)> = keyed.collect();
            keyed.sort_by(|(a, _), (b, _)| match (a, b) {
                // Unknown values come last in both orders.
                (Order::Unknown, _) | (_, Order::Unknown) => a.compare(b),
                _ if view.is_falling => b.compare(a),
                _ => a.compare(b),
            });
            rows = keyed.into_iter().map(|(_, row)| row).collect();
        }
        rows
    }

    fn window(&self, view: &View) -> Window<'_, T> {
        let rows = self.matching(view);
        let matching = rows.len();
        // A window behind the end, as after a filter, becomes the last one.
        let last = matching.saturating_sub(1) / view.limit * view.limit;
        let offset = view.offset.min(last);
        let rows = rows.into_iter().skip(offset).take(view.limit).collect();
        Window {
            rows,
            matching,
            offset,
        }
    }

    /// Shows the window with its filter, order and pages.
    pub(crate) fn show(&self, view: &View) -> Markup {
        self.show_by(view, |rows| self.draw(rows, Some(view)))
    }

    /// Shows the window with its filter and pages, and the rows in another way than as a table.
    pub(crate) fn show_by(&self, view: &View, draw: impl FnOnce(&[&T]) -> Markup) -> Markup {
        if self.rows.is_empty() {
            return html! { div.empty { (self.empty) } };
        }
        let window = self.window(view);
        html! {
            form.filter method="get" role="search" {
                @for (name, value) in view.kept() { input type="hidden" name=(name) value=(value); }
                label for="filter" { "Filter" }
                input #filter type="search" name="q" value=(view.q) autocomplete="off" spellcheck="false";
                button type="submit" { "Filter" }
                @if !view.q.is_empty() { a.button href=(view.unfiltered()) { "All" } }
                span.quiet { (self.told(view, &window)) }
            }
            @if window.rows.is_empty() {
                p.empty { "No " (self.word) " matches “" (view.q) "”." }
            } @else {
                (draw(&window.rows))
            }
            (self.pages(view, &window))
        }
    }

    /// Shows the first rows without filter, order and pages, as a part of another page.
    pub(crate) fn plain(&self) -> Markup {
        if self.rows.is_empty() {
            return html! { div.empty { (self.empty) } };
        }
        let view = View::first();
        let window = self.window(&view);
        html! {
            (self.draw(&window.rows, None))
            @if window.matching > window.rows.len() {
                p.quiet { "and " (format::number_of(window.matching - window.rows.len(), "more row")) }
            }
        }
    }

    fn told(&self, view: &View, window: &Window<'_, T>) -> String {
        let all = format::number_of(self.rows.len(), self.word);
        match view.q.is_empty() {
            true => all,
            false => format!("{} of {all}", format::count(window.matching as u64)),
        }
    }

    fn draw(&self, rows: &[&T], view: Option<&View>) -> Markup {
        let label = format!("Table of {}s", self.word);
        html! {
            div.scroll tabindex="0" role="region" aria-label=(label) {
                table {
                    thead { tr { @for column in &self.columns { (heading(column, view)) } } }
                    tbody {
                        @for row in rows {
                            @let id = (self.id)(row);
                            tr data-id=[(!id.is_empty()).then_some(&id)] {
                                @for (at, column) in self.columns.iter().enumerate() {
                                    @let cell = (column.make)(row);
                                    @if at == 0 {
                                        th scope="row" class=[column.is_figure.then_some("figure")] { (column.show(&cell)) }
                                    } @else {
                                        td.figure[column.is_figure] data-v=[column.live] { (column.show(&cell)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn pages(&self, view: &View, window: &Window<'_, T>) -> Markup {
        let end = window.offset + window.rows.len();
        let before = window.offset.saturating_sub(view.limit);
        html! {
            nav.pages aria-label="Parts of the table" {
                @if window.matching > view.limit {
                    @if window.offset > 0 { a.button rel="prev" href=(view.from(before)) { "← Earlier" } }
                    span { (format::count(window.offset as u64 + 1)) " to " (format::count(end as u64))
                        " of " (format::count(window.matching as u64)) }
                    @if end < window.matching { a.button rel="next" href=(view.from(end)) { "Later →" } }
                }
                span.export { "All as " a href=(view.export("csv")) { "CSV" } " " a href=(view.export("json")) { "JSON" } }
            }
        }
    }
}

fn heading<T>(column: &Column<'_, T>, view: Option<&View>) -> Markup {
    let is_sorted = view.is_some_and(|view| !column.key.is_empty() && view.sort == column.key);
    let falls = view.is_some_and(|view| view.is_falling);
    let order = is_sorted.then_some(if falls { "descending" } else { "ascending" });
    html! {
        th scope="col" class=[column.is_figure.then_some("figure")] aria-sort=[order] {
            @match view {
                Some(view) if column.is_sorted => a href=(view.sorted_by(column.key, column.is_figure)) {
                    (column.title)
                    @if is_sorted { span aria-hidden="true" { @if falls { " ↓" } @else { " ↑" } } }
                },
                _ => (column.title),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visit::Fields;

    /// Returns a table of names, each with a number.
    fn table(rows: Vec<(String, Option<u32>)>) -> Table<'static, (String, Option<u32>)> {
        Table {
            word: "thing",
            columns: vec![
                Column::text("name", "Name", |row: &(String, Option<u32>)| {
                    Cell::text(row.0.as_str()).link(format::at("/things", &[&row.0]))
                }),
                Column::figure("size", "Size", |row: &(String, Option<u32>)| {
                    Cell::maybe(row.1.map(f64::from), "n")
                })
                .live(0),
            ],
            rows,
            id: |row| row.0.clone(),
            empty: html! { p { "Make the first thing." } },
        }
    }

    fn many(count: u32) -> Vec<(String, Option<u32>)> {
        let size = |at: u32| (!at.is_multiple_of(7)).then_some(at % 5);
        (0..count)
            .map(|at| (format!("thing{at}"), size(at)))
            .collect()
    }

    fn view(query: &str) -> View {
        View::read(&Fields::read(query.as_bytes()))
    }

    #[test]
    fn a_window_has_sixty_rows_and_leads_on() {
        let table = table(many(150));
        assert_eq!(table.ids(&view("")).len(), WINDOW);
        let second = table.ids(&view("offset=60"));
        assert_eq!((second[0].as_str(), second.len()), ("thing60", 60));
        let last = table.ids(&view("offset=100000"));
        assert_eq!((last[0].as_str(), last.len()), ("thing120", 30));
        let text = table.show(&view("sort=name&offset=60")).into_string();
        assert!(text.contains("61 to 120 of 150"), "{text}");
        assert!(
            text.contains("href=\"?sort=name&amp;offset=120\""),
            "{text}"
        );
        assert_eq!(text.matches("<tr data-id").count(), 60);
    }

    #[test]
    fn rows_sort_in_both_orders_and_the_unknown_come_last() {
        let table = table(many(20));
        let sizes = |query: &str| -> Vec<Option<u32>> {
            let rows = table.matching(&view(query)).into_iter();
            rows.map(|row| row.1).collect()
        };
        let falling = sizes("sort=-size");
        assert_eq!((falling[0], falling[19]), (Some(4), None));
        let rising = sizes("sort=size");
        assert_eq!((rising[0], rising[19]), (Some(0), None));
        assert_eq!(
            sizes("sort=nonsense"),
            many(20).into_iter().map(|row| row.1).collect::<Vec<_>>()
        );
        let names = table.ids(&view("sort=-name"));
        assert_eq!(names[0], "thing19");
    }

    #[test]
    fn a_filter_takes_all_words_in_any_case() {
        let table = table(many(150));
        assert_eq!(table.ids(&view("q=THING14+9")), ["thing149"]);
        let text = table.show(&view("q=nothing+at+all")).into_string();
        assert!(text.contains("No thing matches"), "{text}");
    }

    #[test]
    fn an_empty_table_says_what_to_do_next() {
        let text = table(Vec::new()).show(&view("q=x")).into_string();
        assert!(
            text.contains("Make the first thing.") && !text.contains("<table"),
            "{text}"
        );
    }

    #[test]
    fn names_of_others_are_only_text() {
        let hostile = "\"><script>alert(1)</script><img src=x onerror=alert(1)>";
        let table = table(vec![(hostile.to_owned(), Some(1))]);
        for query in [
            "",
            "q=%22%3E%3Cscript%3E",
            "sort=%22%3E%3Cscript%3E&x=%3Cscript%3E",
        ] {
            let text = table.show(&view(query)).into_string();
            assert!(
                !text.contains("<script") && !text.contains("<img"),
                "{text}"
            );
        }
    }

    #[test]
    fn rows_of_a_table_without_orders_keep_their_own() {
        let column = || Column::text("", "Name", |row: &&str| Cell::text(*row));
        let table = Table {
            word: "vdev",
            columns: vec![column(), column()],
            rows: vec!["mirror-0", "disk-b", "disk-a"],
            id: |row| (*row).to_owned(),
            empty: html! {},
        };
        assert_eq!(table.ids(&view("")), ["mirror-0", "disk-b", "disk-a"]);
    }

    #[test]
    fn live_places_have_numbers_and_rows_have_names() {
        let text = table(many(1)).show(&view("")).into_string();
        assert!(text.contains("<tr data-id=\"thing0\">"), "{text}");
        assert!(text.contains("data-v=\"0\""), "{text}");
    }
}
