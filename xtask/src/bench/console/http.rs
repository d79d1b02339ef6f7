//! Requests to the console, made by curl over one connection with TLS, as browsers make them.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// Core of the clients.
const CORE: &str = "1";

/// Client of a console, with a token.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Scheme, host and port.
    pub(super) origin: String,
    /// Text of a token.
    pub(super) token: String,
}

/// Answer to a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    /// Milliseconds until the whole answer was there.
    pub(super) ms: f64,
    /// Bytes of head and body, as they were sent.
    pub(super) bytes: u64,
}

impl Client {
    /// Builds a command of curl, on the core of the clients.
    pub(super) fn curl(&self) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", CORE, "curl", "--silent", "--show-error", "--insecure"]);
        command.args(["--http1.1", "--fail", "--header"]);
        command.arg(format!("Authorization: Bearer {}", self.token));
        command
    }

    /// Returns a page as text.
    pub(super) fn text(&self, path: &str) -> Result<String, String> {
        let mut command = self.curl();
        command.args(["--header", "Accept: text/html"]);
        command.arg(format!("{}{path}", self.origin));
        output(&mut command, "")
    }

    /// Asks for a path several times, one after the other, after a first request that is not timed.
    pub(super) fn time(&self, path: &str, times: usize) -> Result<Vec<Timed>, String> {
        let mut command = self.curl();
        command.args(["--header", "Accept: text/html"]);
        command.args(["--header", "Accept-Encoding: gzip", "--config", "-"]);
        command.args([
            "--write-out",
            "%{time_total} %{size_download} %{size_header}\\n",
        ]);
        let request = format!("url = \"{}{path}\"\noutput = \"/dev/null\"\n", self.origin);
        let told = output(&mut command, &request.repeat(times + 1))?;
        let answers: Option<Vec<Timed>> = told.lines().skip(1).map(timed).collect();
        match answers {
            Some(answers) if answers.len() == times => Ok(answers),
            _ => Err(format!("curl said of {path}: {told}")),
        }
    }
}

fn timed(line: &str) -> Option<Timed> {
    let mut words = line.split(' ');
    let seconds: f64 = words.next()?.parse().ok()?;
    let body: u64 = words.next()?.parse().ok()?;
    let head: u64 = words.next()?.parse().ok()?;
    Some(Timed {
        ms: seconds * 1e3,
        bytes: body + head,
    })
}

fn output(command: &mut Command, input: &str) -> Result<String, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot run curl: {e}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(input.as_bytes())
            .map_err(|e| format!("tell curl what to ask: {e}"))?;
    }
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "curl: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// Returns all values of an attribute in a page, in their order.
pub(super) fn attributes(page: &str, name: &str) -> Vec<String> {
    let start = format!(" {name}=\"");
    let values = page.split(&start).skip(1);
    values
        .filter_map(|rest| rest.split('"').next())
        .map(|value| value.replace("&amp;", "&").replace("&quot;", "\""))
        .collect()
}

/// Writes text as a value in a query.
pub(super) fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                escaped.push(char::from(byte));
            }
            other => escaped.push_str(&format!("%{other:02X}")),
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_texts_escaped() {
        let page = "<a href=\"/units?a=1&amp;b=2\"><a title=\"x\" href=\"/\">";
        assert_eq!(attributes(page, "href"), ["/units?a=1&b=2", "/"]);
        assert_eq!(escape("u:a b\nü"), "u%3Aa%20b%0A%C3%BC");
    }

    #[test]
    fn lines_of_curl_are_read() {
        let answer = timed("0.012345 1000 234").expect("a line");
        assert_eq!((answer.ms, answer.bytes), (12.345, 1234));
        assert!(timed("0.1 x 1").is_none());
    }
}
