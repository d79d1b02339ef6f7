//! Real browser: Debian's chromium, driven by its chromedriver over HTTP (WebDriver, and the
//! browser's own DevTools commands through it). It has a profile of its own, which is removed with
//! it, and looks for no network.

pub(crate) mod hand;

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::machine::packages::on_path;
use crate::machine::process::{self, Running};
use crate::machine::scratch;
use crate::servers::server;

const LIMIT: Duration = Duration::from_secs(60);

/// Switches of chromium: no window, no sandbox (labs run as root), nothing in the background.
const SWITCHES: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
];

/// Form in which a page is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// Width in pixels.
    pub(crate) width: u32,
    /// Height in pixels.
    pub(crate) height: u32,
    /// Colour scheme that the user prefers: `light` or `dark`.
    pub(crate) scheme: &'static str,
    /// Whether the page is printed.
    pub(crate) printed: bool,
}

/// Browser with one page.
#[derive(Debug)]
pub(crate) struct Browser {
    port: u16,
    session: String,
    _driver: Running,
    // The profile is the last field, so that it is removed after the browser that uses it.
    _profile: TempDir,
}

/// Returns the reason why there is no browser here, or `None` if there is one.
pub(crate) fn missing() -> Option<String> {
    ["chromium", "chromedriver"]
        .into_iter()
        .find(|name| on_path(name).is_none())
        .map(|name| format!("no `{name}` (Debian packages chromium and chromium-driver)"))
}

impl Browser {
    /// Starts a browser.
    ///
    /// # Errors
    /// The browser does not start.
    pub(crate) fn start() -> Result<Self> {
        let profile = scratch::folder("browser")?;
        let port = server::free_port()?;
        let mut command = Command::new(on_path("chromedriver").context("no chromedriver")?);
        command
            .arg(format!("--port={port}"))
            .env("HOME", profile.path());
        let driver = process::start_logged(command, &profile.path().join("driver.log"))?;
        process::until("chromedriver answers", LIMIT, || {
            request(port, "GET", "/status", None).is_ok_and(|status| status["ready"] == true)
        })?;
        let mut switches: Vec<String> =
            SWITCHES.iter().map(|switch| (*switch).to_owned()).collect();
        switches.push(format!(
            "--user-data-dir={}",
            profile.path().join("profile").display()
        ));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            // The daemon's certificate is its own.
            "acceptInsecureCerts": true,
            "goog:chromeOptions": { "binary": on_path("chromium"), "args": switches },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        } } });
        let answer = request(port, "POST", "/session", Some(&wanted))?;
        let session = answer["sessionId"]
            .as_str()
            .context("no session of the browser")?;
        Ok(Self {
            port,
            session: session.to_owned(),
            _driver: driver,
            _profile: profile,
        })
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        request(
            self.port,
            "POST",
            &format!("/session/{}{path}", self.session),
            Some(body),
        )
    }

    fn get(&self, path: &str) -> Result<Value> {
        let path = format!("/session/{}{path}", self.session);
        request(self.port, "GET", &path, None)
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Result<Value> {
        self.post(
            "/goog/cdp/execute",
            &json!({ "cmd": command, "params": parameters }),
        )
        .with_context(|| format!("DevTools {command}"))
    }

    /// Shows pages on this screen from now on.
    ///
    /// # Errors
    /// The browser refuses.
    pub(crate) fn show_on(&self, screen: Screen) -> Result<()> {
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            &json!({ "width": screen.width, "height": screen.height, "deviceScaleFactor": 1, "mobile": screen.width < 600 }),
        )?;
        let media = if screen.printed { "print" } else { "screen" };
        let feature = json!({ "name": "prefers-color-scheme", "value": screen.scheme });
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({ "media": media, "features": [feature] }),
        )?;
        Ok(())
    }

    /// Opens a file.
    ///
    /// # Errors
    /// The browser cannot open it.
    pub(crate) fn open(&self, file: &Path) -> Result<()> {
        self.go(&format!("file://{}", file.display()))
    }

    /// Opens an address, and waits until the page and its files are loaded.
    ///
    /// # Errors
    /// The browser cannot open it.
    pub(crate) fn go(&self, address: &str) -> Result<()> {
        self.post("/url", &json!({ "url": address }))
            .with_context(|| format!("open {address}"))?;
        Ok(())
    }

    /// Lets scripts of pages run from now on, or keeps them from it.
    ///
    /// # Errors
    /// The browser refuses.
    pub(crate) fn let_scripts_run(&self, may: bool) -> Result<()> {
        let value = json!({ "value": !may });
        self.devtools("Emulation.setScriptExecutionDisabled", &value)?;
        Ok(())
    }

    /// Runs a script in each page from now on, before the page's own.
    ///
    /// # Errors
    /// The browser refuses.
    pub(crate) fn run_in_all_pages(&self, script: &str) -> Result<()> {
        let source = json!({ "source": script });
        self.devtools("Page.addScriptToEvaluateOnNewDocument", &source)?;
        Ok(())
    }

    /// Presses the Tab key, and holds it: each call moves the focus once.
    ///
    /// # Errors
    /// The browser refuses.
    pub(crate) fn press_tab(&self) -> Result<()> {
        let key = json!({
            "type": "rawKeyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9,
        });
        self.devtools("Input.dispatchKeyEvent", &key)?;
        Ok(())
    }

    /// Forgets all cookies.
    ///
    /// # Errors
    /// The browser refuses.
    pub(crate) fn forget_cookies(&self) -> Result<()> {
        self.devtools("Network.clearBrowserCookies", &json!({}))?;
        Ok(())
    }

    /// Runs a script in the page, and returns its result, or the result of the promise that it
    /// returns.
    ///
    /// # Errors
    /// The script throws, or the promise is rejected.
    pub(crate) fn run(&self, script: &str) -> Result<Value> {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Returns the page as a PNG, whole or cut to `height` pixels.
    ///
    /// # Errors
    /// The browser cannot make it.
    pub(crate) fn picture(&self, width: u32, height: u32) -> Result<Vec<u8>> {
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let picture = self.screenshot(&clip, &json!({ "format": "png" }))?;
        ensure!(
            picture.starts_with(b"\x89PNG"),
            "the browser's picture is no PNG"
        );
        Ok(picture)
    }

    /// Returns the upper `height` pixels of the page as a WebP, which is a third of a PNG.
    ///
    /// # Errors
    /// The browser cannot make it.
    pub(crate) fn small_picture(&self, width: u32, height: u32) -> Result<Vec<u8>> {
        self.small(&json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 }))
    }

    /// Returns what is within the page's header, navigation and footer, down to its end or to
    /// `height` pixels, as a WebP.
    ///
    /// # Errors
    /// The browser cannot make it.
    pub(crate) fn small_picture_of_main(&self, height: u32) -> Result<Vec<u8>> {
        let clip = self.run(&format!(
            "const main = document.querySelector('main');
             const {{ x, y, width }} = main.getBoundingClientRect();
             const end = main.lastElementChild.getBoundingClientRect().bottom;
             const height = Math.min(end - y + 16, {height});
             return {{ x: x + scrollX, y: y + scrollY, width, height, scale: 1 }};"
        ))?;
        self.small(&clip)
    }

    fn small(&self, clip: &Value) -> Result<Vec<u8>> {
        let format = json!({ "format": "webp", "quality": 90 });
        let picture = self.screenshot(clip, &format)?;
        ensure!(
            picture.starts_with(b"RIFF") && picture[8..].starts_with(b"WEBP"),
            "the browser's picture is no WebP"
        );
        Ok(picture)
    }

    /// Takes a picture of a part of the page in a format.
    fn screenshot(&self, clip: &Value, format: &Value) -> Result<Vec<u8>> {
        let mut wanted = format.clone();
        wanted["captureBeyondViewport"] = json!(true);
        wanted["clip"] = clip.clone();
        let answer = self.devtools("Page.captureScreenshot", &wanted)?;
        let text = answer["data"]
            .as_str()
            .context("the browser sent no picture")?;
        base64(text)
    }

    /// Returns all messages of the console, of every kind, since the last call.
    ///
    /// # Errors
    /// The browser does not return them.
    pub(crate) fn console(&self) -> Result<Vec<String>> {
        let entries = self.post("/se/log", &json!({ "type": "browser" }))?;
        let entries = entries.as_array().context("no list of messages")?;
        Ok(entries
            .iter()
            .map(|entry| format!("{}: {}", entry["level"], entry["message"]))
            .collect())
    }

    /// Returns every address for which the page asked since the last call.
    ///
    /// # Errors
    /// The browser does not return them.
    pub(crate) fn requests(&self) -> Result<Vec<String>> {
        let entries = self.post("/se/log", &json!({ "type": "performance" }))?;
        let mut addresses = Vec::new();
        for entry in entries.as_array().context("no list of events")? {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap_or_default())?;
            let event = &event["message"];
            if event["method"] == "Network.requestWillBeSent" {
                let address = event["params"]["request"]["url"].as_str();
                addresses.push(address.context("a request without an address")?.to_owned());
            }
        }
        Ok(addresses)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser. If it does not, both die with this process.
        let _ = request(
            self.port,
            "DELETE",
            &format!("/session/{}", self.session),
            None,
        );
    }
}

/// Sends one request to the driver, and returns the value of its answer.
fn request(port: u16, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("connect to chromedriver")?;
    stream.set_read_timeout(Some(LIMIT))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let content = read_answer(&mut BufReader::new(stream)).context("read chromedriver's answer")?;
    let content: Value =
        serde_json::from_slice(&content).context("chromedriver's answer is no JSON")?;
    let value = &content["value"];
    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
        bail!(
            "chromedriver: {error}: {}",
            value["message"].as_str().unwrap_or_default()
        );
    }
    Ok(value.clone())
}

/// Reads the body of an answer, whose length its head gives. The driver leaves the connection open.
fn read_answer(stream: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut length = None;
    loop {
        let mut line = String::new();
        ensure!(stream.read_line(&mut line)? > 0, "it ended in its head");
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = Some(value.trim().parse::<usize>().context("its length")?);
        }
    }
    let mut body = vec![0; length.context("it has no length")?];
    stream.read_exact(&mut body)?;
    Ok(body)
}

fn base64(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut bits) = (0u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => bail!("a letter that is not of base64"),
        };
        word = word << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        assert_eq!(base64("aGVsbG8=").expect("right"), b"hello");
        assert_eq!(base64("//79").expect("right"), [255, 254, 253]);
        assert!(base64("a b").is_err());
    }
}
