//! Tags of pages, as a browser finds them: enough to follow links, to fill in forms, and to see
//! whether a text became markup.

/// A tag of a page.
#[derive(Debug)]
pub(crate) struct Tag {
    /// Name in small letters; an end tag has a slash in front.
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
}

impl Tag {
    /// Returns the value of an attribute. One without a value is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut all = self.attributes.iter();
        let found = all.find(|(of, _)| of == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the names of the attributes.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.attributes.iter().map(|(name, _)| name.as_str())
    }
}

/// Returns all tags of a page, in their order.
pub(crate) fn tags(page: &str) -> Vec<Tag> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let is_tag = rest.starts_with(|it: char| it.is_ascii_alphabetic() || it == '/');
        if is_tag {
            let (tag, behind) = tag(rest);
            found.push(tag);
            rest = behind;
        }
    }
    found
}

/// Reads a tag behind its bracket, and returns what follows it.
fn tag(text: &str) -> (Tag, &str) {
    let ends = |it: char| it.is_whitespace() || it == '>';
    let length = text.find(ends).unwrap_or(text.len());
    let mut tag = Tag {
        name: text[..length].to_ascii_lowercase(),
        attributes: Vec::new(),
    };
    let mut rest = text[length..].trim_start();
    while !rest.is_empty() && !rest.starts_with('>') {
        let ends = |it: char| it.is_whitespace() || it == '>' || it == '=';
        // A letter that begins no name is one itself, as in browsers.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let length = rest[first..].find(ends).map_or(rest.len(), |it| it + first);
        let name = rest[..length].to_ascii_lowercase();
        rest = rest[length..].trim_start();
        let mut value = String::new();
        if let Some(behind) = rest.strip_prefix('=') {
            let behind = behind.trim_start();
            let quote = behind.chars().next().filter(|it| "\"'".contains(*it));
            let (raw, after) = match quote {
                Some(quote) => {
                    let behind = &behind[1..];
                    behind.split_once(quote).unwrap_or((behind, ""))
                }
                None => behind.split_at(behind.find(ends).unwrap_or(behind.len())),
            };
            value = unescape(raw);
            rest = after.trim_start();
        }
        tag.attributes.push((name, value));
    }
    (tag, rest.strip_prefix('>').unwrap_or(rest))
}

fn unescape(text: &str) -> String {
    [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// A form that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Path to which it is sent.
    pub(crate) action: String,
    /// Fields with their values at first.
    pub(crate) fields: Vec<(String, String)>,
}

impl Form {
    /// Returns the body of the form as it was first shown.
    pub(crate) fn body(&self) -> String {
        let pair = |(name, value): &(String, String)| format!("{}={}", coded(name), coded(value));
        self.fields.iter().map(pair).collect::<Vec<_>>().join("&")
    }

    /// Returns the body of the form with all fields empty.
    pub(crate) fn empty_body(&self) -> String {
        let pair = |(name, _): &(String, String)| format!("{}=", coded(name));
        self.fields.iter().map(pair).collect::<Vec<_>>().join("&")
    }
}

/// Returns the forms of a page that are sent by POST.
pub(crate) fn forms(page: &str) -> Vec<Form> {
    let mut forms: Vec<Form> = Vec::new();
    let mut is_inside = false;
    for tag in tags(page) {
        match tag.name.as_str() {
            "form" => {
                is_inside = tag
                    .get("method")
                    .is_some_and(|it| it.eq_ignore_ascii_case("post"));
                if is_inside {
                    let action = tag.get("action").unwrap_or_default().to_owned();
                    forms.push(Form {
                        action,
                        fields: Vec::new(),
                    });
                }
            }
            "/form" => is_inside = false,
            "input" | "select" | "textarea" | "button" if is_inside => {
                if let (Some(form), Some(name)) = (forms.last_mut(), tag.get("name")) {
                    let value = tag.get("value").unwrap_or_default().to_owned();
                    form.fields.push((name.to_owned(), value));
                }
            }
            _ => {}
        }
    }
    forms
}

/// Encodes a text as a value of a form.
pub(crate) fn coded(text: &str) -> String {
    let each = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    });
    each.collect()
}

#[test]
fn tags_and_forms_are_found_as_browsers_find_them() {
    let page = "<p>1 < 2</p><form method=\"post\" action=\"/a?x=1&amp;y\"><input name=\"n\" value=\"&lt;b&gt;\" \
        required><button name='go' value=yes>Go</button></form><form action=\"/find\"><input name=q></form>";
    let found = forms(page);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].action, "/a?x=1&y");
    assert_eq!(found[0].body(), "n=%3Cb%3E&go=yes");
    assert_eq!(found[0].empty_body(), "n=&go=");
    let injected = tags("<td title=\"\"><script>alert(1)</script><img src=x onerror=alert(2)>");
    let names: Vec<&str> = injected.iter().map(|tag| tag.name.as_str()).collect();
    assert_eq!(names, ["td", "script", "/script", "img"]);
    assert_eq!(injected[3].get("onerror"), Some("alert(2)"));
    assert_eq!(injected[3].names().collect::<Vec<_>>(), ["src", "onerror"]);
}
