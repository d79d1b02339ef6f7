//! The syntax of scst.conf, as scstadmin reads it: words, quotes, blocks in braces, `#` for comments, and a backslash
//! before a character that means itself, in quotes as well.

use crate::config::Error;

/// `KEYWORD arg arg { children }`
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) keyword: String,
    pub(super) args: Vec<String>,
    pub(super) children: Vec<Node>,
    is_block: bool,
}

impl Node {
    pub(super) fn all<'a>(&'a self, keyword: &'a str) -> impl Iterator<Item = &'a Node> {
        self.children
            .iter()
            .filter(move |node| node.keyword == keyword)
    }

    pub(super) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// The value of an attribute line.
    pub(super) fn value(&self, keyword: &str) -> Option<&str> {
        self.children
            .iter()
            .find(|node| node.keyword == keyword)
            .map(|node| node.arg(0))
    }

    fn is_same_block(&self, other: &Self) -> bool {
        self.is_block && self.keyword == other.keyword && self.args == other.args
    }

    pub(super) fn on(&self, keyword: &str) -> bool {
        self.value(keyword) == Some("1")
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Open,
    Close,
}

/// Reads the lines into a tree.
///
/// # Errors
/// A line is not understood; the error names it.
pub(super) fn parse(text: &str) -> Result<Node, Error> {
    let mut open = vec![Node::default()];
    for (index, line) in text.lines().enumerate() {
        let wrong = |what: &str| {
            Error::invalid(
                format!("line {} of the scst.conf: {what}", index + 1),
                "give the file that `scstadmin -write_config` writes, usually /etc/scst.conf",
            )
        };
        let mut words = Vec::new();
        for token in tokens(line).map_err(&wrong)? {
            match token {
                Token::Word(word) => words.push(word),
                Token::Open if words.is_empty() => {
                    return Err(wrong("a { without a name before it"));
                }
                Token::Open => open.push(Node {
                    is_block: true,
                    ..node(std::mem::take(&mut words))
                }),
                Token::Close => {
                    push(&mut open, std::mem::take(&mut words));
                    let done = open.pop().filter(|_| !open.is_empty());
                    let done = done.ok_or_else(|| wrong("a } too many"))?;
                    if let Some(parent) = open.last_mut() {
                        if parent
                            .children
                            .iter()
                            .any(|other| other.is_same_block(&done))
                        {
                            // scstadmin keeps the last of them only.
                            return Err(wrong("this block ends one that was there before"));
                        }
                        parent.children.push(done);
                    }
                }
            }
        }
        push(&mut open, words);
    }
    match (open.pop(), open.is_empty()) {
        (Some(root), true) if !root.children.is_empty() => Ok(root),
        (_, true) => Err(Error::invalid(
            "the scst.conf holds nothing",
            "check the path",
        )),
        _ => Err(Error::invalid(
            "the scst.conf ends inside a block: a } is missing",
            "check that the file is whole",
        )),
    }
}

fn node(words: Vec<String>) -> Node {
    let mut words = words.into_iter();
    Node {
        keyword: words.next().unwrap_or_default(),
        args: words.collect(),
        ..Node::default()
    }
}

/// Puts an attribute line into the block that is open.
fn push(open: &mut [Node], words: Vec<String>) {
    if let Some(parent) = open.last_mut()
        && !words.is_empty()
    {
        parent.children.push(node(words));
    }
}

/// The words and braces of a line, without its comment.
fn tokens(line: &str) -> Result<Vec<Token>, &'static str> {
    let (mut tokens, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let c = chars.next().ok_or("a backslash stands at its end")?;
                word.get_or_insert_default().push(c);
            }
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if quoted => word.get_or_insert_default().push(c),
            '#' if word.is_none() => break,
            '{' | '}' => {
                tokens.extend(word.take().map(Token::Word));
                tokens.push(if c == '{' { Token::Open } else { Token::Close });
            }
            c if c.is_whitespace() => tokens.extend(word.take().map(Token::Word)),
            c => word.get_or_insert_default().push(c),
        }
    }
    if quoted {
        return Err("a quote is not closed");
    }
    tokens.extend(word.map(Token::Word));
    Ok(tokens)
}
