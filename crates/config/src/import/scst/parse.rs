//! The syntax of scst.conf, as scstadmin reads it: words, quotes, blocks in braces, and `#` for
//! comments. A backslash quotes the next character, inside quotes too.
//!
//! Values are read strictly. A typing error in `read_only` or `IncomingUser` would open what was
//! closed. So a value that SCST would refuse is refused here too, with its line.

use model::Error;

/// Most levels of nested blocks; SCST needs four.
const MAX_DEPTH: usize = 8;

/// Node `KEYWORD arg arg { children }`.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Line at which the node begins, counted from 1.
    pub(super) line: usize,
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

    fn is_same_block(&self, other: &Self) -> bool {
        self.is_block && self.keyword == other.keyword && self.args == other.args
    }

    /// Returns the value of an attribute that one line sets; empty if the line has none.
    pub(super) fn value<'a>(&'a self, keyword: &str) -> Result<Option<&'a str>, Error> {
        let mut found: Option<&Node> = None;
        for node in self.children.iter().filter(|node| node.keyword == keyword) {
            if node.is_block || node.args.len() > 1 {
                return Err(node
                    .refused("an attribute takes one value; quote a value that contains blanks"));
            }
            match found {
                // scstadmin keeps all values of an attribute, and sets them in no certain order.
                Some(other) if other.arg(0) != node.arg(0) => {
                    let what = format!("line {} sets {keyword} to another value", other.line);
                    return Err(node.refused(&what));
                }
                _ => found = Some(node),
            }
        }
        Ok(found.map(|node| node.arg(0)))
    }

    /// Reads a number as the kernel does: also with 0x, or octal after a leading 0.
    pub(super) fn number(&self, keyword: &str) -> Result<Option<u64>, Error> {
        let Some(text) = self.value(keyword)? else {
            return Ok(None);
        };
        let wrong = || {
            let node = self.all(keyword).next().unwrap_or(self);
            node.refused(&format!("{keyword} must be a whole number, not {text:?}"))
        };
        kernel_number(text).map(Some).ok_or_else(wrong)
    }

    /// Reads a switch, which is off if no line sets it.
    pub(super) fn on(&self, keyword: &str) -> Result<bool, Error> {
        match self.number(keyword)? {
            None | Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(other) => {
                let node = self.all(keyword).next().unwrap_or(self);
                Err(node.refused(&format!("{keyword} must be 0 or 1, not {other}")))
            }
        }
    }

    /// Refuses a node unless this many words follow its keyword.
    pub(super) fn has_args(&self, count: usize) -> Result<(), Error> {
        if self.args.len() == count && self.args.iter().all(|arg| !arg.is_empty()) {
            return Ok(());
        }
        let plural = if count == 1 { "" } else { "s" };
        Err(self.refused(&format!(
            "{} must be followed by {count} word{plural}, not by {:?}",
            self.keyword,
            self.args.join(" ")
        )))
    }

    /// Refuses blocks of any other kind: a group with a misspelt keyword would be missing.
    pub(super) fn has_blocks(&self, kinds: &[&str]) -> Result<(), Error> {
        let unknown = |node: &&Node| node.is_block && !kinds.contains(&node.keyword.as_str());
        match self.children.iter().find(unknown) {
            None => Ok(()),
            Some(node) => {
                let allowed = match kinds {
                    [] => String::new(),
                    _ => format!("; allowed are {}", kinds.join(", ")),
                };
                Err(node.refused(&format!(
                    "the block {} is not allowed here{allowed}",
                    node.keyword
                )))
            }
        }
    }

    pub(super) fn refused(&self, what: &str) -> Error {
        Error::invalid(
            format!("line {} of the scst.conf: {what}", self.line),
            "correct that line, and import the file again",
        )
    }
}

pub(super) fn kernel_number(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
        None => (lower.as_str(), 10),
    };
    // The number parser would accept a sign.
    if digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        u64::from_str_radix(digits, radix).ok()
    } else {
        None
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
                    return Err(wrong("a { has no name before it"));
                }
                Token::Open if open.len() > MAX_DEPTH => {
                    return Err(wrong("blocks are nested more deeply than in SCST"));
                }
                Token::Open => open.push(Node {
                    is_block: true,
                    ..node(std::mem::take(&mut words), index + 1)
                }),
                Token::Close => {
                    push(&mut open, std::mem::take(&mut words), index + 1);
                    let done = open.pop().filter(|_| !open.is_empty());
                    let done = done.ok_or_else(|| wrong("one } is too many"))?;
                    if let Some(parent) = open.last_mut() {
                        if parent
                            .children
                            .iter()
                            .any(|other| other.is_same_block(&done))
                        {
                            // scstadmin keeps only the last of these blocks.
                            return Err(wrong("the block that ends here repeats an earlier block"));
                        }
                        parent.children.push(done);
                    }
                }
            }
        }
        push(&mut open, words, index + 1);
    }
    match (open.pop(), open.is_empty()) {
        (Some(root), true) if !root.children.is_empty() => Ok(root),
        (Some(unclosed), false) => Err(Error::invalid(
            format!(
                "the scst.conf ends inside the block that begins at line {}: a }} is missing",
                unclosed.line
            ),
            "check that the file is complete",
        )),
        _ => Err(Error::invalid(
            "line 1: the scst.conf is empty",
            "check the path",
        )),
    }
}

fn node(words: Vec<String>, line: usize) -> Node {
    let mut words = words.into_iter();
    Node {
        line,
        keyword: words.next().unwrap_or_default(),
        args: words.collect(),
        ..Node::default()
    }
}

/// Adds an attribute line to the open block.
fn push(open: &mut [Node], words: Vec<String>, line: usize) {
    if let Some(parent) = open.last_mut()
        && !words.is_empty()
    {
        parent.children.push(node(words, line));
    }
}

/// Returns the words and braces of a line, without its comment.
fn tokens(line: &str) -> Result<Vec<Token>, &'static str> {
    let (mut tokens, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    let mut chars = line.chars();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let c = chars.next().ok_or("the line ends with a backslash")?;
                word.get_or_insert_default().push(c);
            }
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '#' if quoted || !before.is_whitespace() => {
                return Err(
                    "a # begins a comment, and scstadmin drops the character before it; write \\# for a # in a word",
                );
            }
            '#' => break,
            c if quoted => word.get_or_insert_default().push(c),
            '{' | '}' => {
                tokens.extend(word.take().map(Token::Word));
                tokens.push(if c == '{' { Token::Open } else { Token::Close });
            }
            c if c.is_whitespace() => tokens.extend(word.take().map(Token::Word)),
            c => word.get_or_insert_default().push(c),
        }
        before = c;
    }
    if quoted {
        return Err("a quote is not closed");
    }
    tokens.extend(word.map(Token::Word));
    Ok(tokens)
}
