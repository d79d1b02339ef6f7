//! A reader without scripts who walks through wizards: takes the form of a page as a browser would,
//! fills fields in, and presses a button.

use crate::rig::{Reply, Site, Who};

/// Form of a wizard as it was last shown.
pub(crate) struct Walker<'a> {
    site: &'a Site,
    who: Who,
    path: String,
    /// Names and values that the form would send, without buttons.
    pub(crate) fields: Vec<(String, String)>,
    /// Last answer.
    pub(crate) page: Reply,
    /// Number of buttons that were pressed.
    pub(crate) clicks: usize,
}

impl<'a> Walker<'a> {
    /// Opens the page of a wizard.
    pub(crate) fn open(site: &'a Site, who: Who, path: &str) -> Self {
        let page = site.get(path, &who);
        assert_eq!(page.status, 200, "{page:?}");
        let mut walker = Self {
            site,
            who,
            path: path.split('?').next().expect("a path").to_owned(),
            fields: Vec::new(),
            page,
            clicks: 1,
        };
        walker.read();
        walker
    }

    fn read(&mut self) {
        let start = self.page.body.find("<form class=\"form wide\"");
        self.fields = start.map_or_else(Vec::new, |start| {
            let form = &self.page.body[start..];
            fields(&form[..form.find("</form>").expect("an end")])
        });
    }

    /// Fills a field in, in place of what it had.
    pub(crate) fn enter(&mut self, name: &str, value: &str) -> &mut Self {
        self.fields.retain(|(of, _)| of != name);
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the values of a field.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        let fields = self.fields.iter().filter(|(of, _)| of == name);
        fields.map(|(_, value)| value.as_str()).collect()
    }

    /// Presses a button, and expects a status.
    pub(crate) fn press(&mut self, button: &str, status: u16) -> &mut Self {
        let pair = |(name, value): &(String, String)| format!("{name}={}", escape(value));
        let pairs: Vec<String> = self.fields.iter().map(pair).collect();
        let form = format!("{}&go={button}", pairs.join("&"));
        self.page = self.site.post(&self.path, &self.who, &form);
        self.clicks += 1;
        assert_eq!(self.page.status, status, "{}", plain(&self.page.body));
        self.read();
        self
    }

    /// Goes on, and expects the step of this title.
    pub(crate) fn next(&mut self, title: &str) -> &mut Self {
        self.press("next", 200);
        self.at(title)
    }

    /// Expects to be at the step of this title.
    pub(crate) fn at(&mut self, title: &str) -> &mut Self {
        let mark = format!("<li aria-current=\"step\">{title}</li>");
        assert!(
            self.page.body.contains(&mark),
            "{title}: {}",
            plain(&self.page.body)
        );
        self
    }

    /// Expects that the page says something.
    pub(crate) fn says(&mut self, words: &str) -> &mut Self {
        let text = plain(&self.page.body);
        assert!(text.contains(words), "{words}: {text}");
        self
    }

    /// Goes on, and expects to be refused with these words, and to stay at the step of this title.
    pub(crate) fn refused(&mut self, status: u16, title: &str, words: &str) -> &mut Self {
        self.press("next", status);
        self.at(title).says(words);
        for label in ["Not changed", "What to do"] {
            assert!(self.page.body.contains(label), "{label}: {:?}", self.page);
        }
        self
    }

    /// Makes the change, and returns the page to which that leads.
    pub(crate) fn commit(&mut self) -> Reply {
        self.press("commit", 303);
        let path = self.page.header("location").expect("a place").to_owned();
        let path = path.split('#').next().expect("a path");
        let page = self.site.get(path, &self.who);
        assert_eq!(page.status, 200, "{page:?}");
        page
    }
}

/// Returns the text of a page without tags.
pub(crate) fn plain(page: &str) -> String {
    let mut text = String::new();
    for piece in page.split('<') {
        text.push_str(piece.split_once('>').map_or(piece, |(_, rest)| rest));
    }
    unescape(&text)
}

fn unescape(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&quot;", "\"").replace("&amp;", "&")
}

fn escape(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Returns the value of an attribute.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let mark = format!(" {name}=\"");
    let start = tag.find(&mark)? + mark.len();
    let value = tag[start..].split('"').next()?;
    Some(unescape(value))
}

/// Reports whether a tag has an attribute without a value.
fn has(tag: &str, name: &str) -> bool {
    let words = tag.split(['"', ' ']);
    words.into_iter().any(|word| word == name)
}

/// Returns what a browser would send of a form, without its buttons.
fn fields(form: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut select: Option<(String, Option<String>)> = None;
    for piece in form.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or((piece, ""));
        let name = attribute(tag, "name");
        match (tag.split(' ').next().expect("a tag"), name) {
            ("input", Some(name)) => {
                let kind = attribute(tag, "type").unwrap_or_default();
                let is_choice = kind == "radio" || kind == "checkbox";
                if !has(tag, "disabled") && (!is_choice || has(tag, "checked")) {
                    found.push((name, attribute(tag, "value").unwrap_or_default()));
                }
            }
            ("textarea", Some(name)) => found.push((name, unescape(text))),
            ("select", Some(name)) => select = Some((name, None)),
            ("option", _) => {
                if let Some((_, chosen)) = &mut select
                    && (chosen.is_none() || has(tag, "selected"))
                {
                    *chosen = attribute(tag, "value");
                }
            }
            ("/select", _) => {
                if let Some((name, chosen)) = select.take() {
                    found.push((name, chosen.unwrap_or_default()));
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn a_form_is_read_as_browsers_do() {
    let form = "<form class=\"form wide\"><input type=\"hidden\" name=\"a\" value=\"1 &amp; 2\">\
                <input type=\"radio\" name=\"b\" value=\"x\"><input type=\"radio\" name=\"b\" value=\"y\" checked>\
                <input type=\"checkbox\" name=\"c\" value=\"z\" checked disabled><select name=\"d\">\
                <option value=\"1\">one</option><option value=\"2\" selected>two</option></select>\
                <textarea name=\"e\" rows=\"2\">l1\nl2</textarea>";
    let found = fields(form);
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    let expected = [("a", "1 & 2"), ("b", "y"), ("d", "2"), ("e", "l1\nl2")];
    assert_eq!(found, expected);
    assert_eq!(plain("a<b>c &lt;d"), "ac <d");
}
