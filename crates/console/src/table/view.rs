//! View of a table: what its links say about order, filter and place. A view can be bookmarked.

use crate::format::escape;
use crate::visit::Fields;

/// Rows of a window.
pub(crate) const WINDOW: usize = 60;

/// Names of parameters that belong to the view. All others stay in its links.
const OWN: [&str; 5] = ["sort", "q", "offset", "limit", "format"];

/// View of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Key of the column by which rows are sorted; empty for the table's own order.
    pub(crate) sort: String,
    /// Whether the order is falling.
    pub(crate) is_falling: bool,
    /// Words that a row must contain.
    pub(crate) q: String,
    /// Number of the first row.
    pub(crate) offset: usize,
    /// Most rows.
    pub(crate) limit: usize,
    others: Vec<(String, String)>,
}

impl View {
    /// Reads the view from a query. What is not valid has its default.
    pub(crate) fn read(query: &Fields) -> Self {
        let sort = query.get("sort");
        let limit = query.get("limit").parse().unwrap_or(WINDOW);
        let others = query
            .0
            .iter()
            .filter(|(name, _)| !OWN.contains(&name.as_str()));
        Self {
            is_falling: sort.starts_with('-'),
            sort: sort.trim_start_matches('-').to_owned(),
            q: query.get("q").to_owned(),
            offset: query.get("offset").parse().unwrap_or(0),
            limit: limit.clamp(1, WINDOW),
            others: others.cloned().collect(),
        }
    }

    /// Returns the view of the first rows in their own order.
    pub(crate) fn first() -> Self {
        Self {
            limit: WINDOW,
            ..Self::default()
        }
    }

    /// Returns the link to all rows, in the same order.
    pub(crate) fn unfiltered(&self) -> String {
        Self {
            q: String::new(),
            offset: 0,
            ..self.clone()
        }
        .link("")
    }

    /// Returns the link that sorts by a column. A second click turns the order round.
    pub(crate) fn sorted_by(&self, key: &str, is_falling_first: bool) -> String {
        let is_falling = match self.sort == key {
            true => !self.is_falling,
            false => is_falling_first,
        };
        let view = Self {
            sort: key.to_owned(),
            is_falling,
            offset: 0,
            ..self.clone()
        };
        view.link("")
    }

    /// Returns the link to the window that begins at a row.
    pub(crate) fn from(&self, offset: usize) -> String {
        Self {
            offset,
            ..self.clone()
        }
        .link("")
    }

    /// Returns the link to all rows in a format.
    pub(crate) fn export(&self, format: &str) -> String {
        Self {
            offset: 0,
            ..self.clone()
        }
        .link(format)
    }

    /// Returns the parameters that the filter's form keeps.
    pub(crate) fn kept(&self) -> Vec<(&str, String)> {
        let mut kept: Vec<(&str, String)> = self
            .others
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        if !self.sort.is_empty() {
            kept.push(("sort", self.order()));
        }
        kept
    }

    /// Returns the query of the view, as the stream of live figures takes it.
    pub(crate) fn query(&self) -> String {
        self.link("").trim_start_matches('?').to_owned()
    }

    fn order(&self) -> String {
        format!("{}{}", if self.is_falling { "-" } else { "" }, self.sort)
    }

    fn link(&self, format: &str) -> String {
        let mut pairs = self.others.clone();
        let mut add = |name: &str, value: String| pairs.push((name.to_owned(), value));
        if !self.sort.is_empty() {
            add("sort", self.order());
        }
        if !self.q.is_empty() {
            add("q", self.q.clone());
        }
        if self.offset > 0 {
            add("offset", self.offset.to_string());
        }
        if !format.is_empty() {
            add("format", format.to_owned());
        }
        let pairs = pairs
            .iter()
            .map(|(name, value)| format!("{}={}", escape(name), escape(value)));
        format!("?{}", pairs.collect::<Vec<_>>().join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(query: &str) -> View {
        View::read(&Fields::read(query.as_bytes()))
    }

    #[test]
    fn a_view_is_read_from_its_link() {
        let read = view("pool=tank&sort=-p99&q=db+1&offset=60");
        assert_eq!(
            (read.sort.as_str(), read.is_falling, read.offset),
            ("p99", true, 60)
        );
        assert_eq!(read.link(""), "?pool=tank&sort=-p99&q=db%201&offset=60");
        assert_eq!(view(read.link("").trim_start_matches('?')), read);
        assert_eq!(
            read.export("csv"),
            "?pool=tank&sort=-p99&q=db%201&format=csv"
        );
        let kept = read.kept();
        assert_eq!(
            kept,
            [("pool", "tank".to_owned()), ("sort", "-p99".to_owned())]
        );
    }

    #[test]
    fn a_second_click_turns_the_order_round() {
        assert_eq!(view("offset=60").sorted_by("p99", true), "?sort=-p99");
        assert_eq!(view("sort=-p99").sorted_by("p99", true), "?sort=p99");
        assert_eq!(view("sort=p99").sorted_by("name", false), "?sort=name");
    }

    #[test]
    fn nonsense_has_its_default() {
        let read = view("offset=-1&limit=100000&sort=-");
        assert_eq!(
            (read.offset, read.limit, read.sort.as_str()),
            (0, WINDOW, "")
        );
        assert_eq!(view("limit=0").limit, 1);
        assert!(
            view("q=%22%3E%3Cscript%3E")
                .link("")
                .contains("q=%22%3E%3Cscript%3E")
        );
    }
}
