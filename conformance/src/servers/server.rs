//! Server under test, as every lab sees it: started with a [`Spec`], reached by URL, killed,
//! restarted, cleaned up. It is Sandstone, or tgt to find out whether a lab itself works.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::machine::packages::Tools;
use crate::machine::process::Running;
use crate::servers::{sandstone_daemon, tgt};

/// Kind of server.
#[derive(Clone, Debug)]
pub(crate) enum ServerKind {
    /// Sandstone, with the path of the binary.
    Sandstone(PathBuf),
    /// Debian's tgt.
    Tgt,
}

/// Storage of the logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// Main memory.
    Memory,
    /// A sparse file.
    File,
    /// A file whose blocks are all allocated from the start and are written in place.
    Preallocated,
    /// A thin volume of a pool on one file.
    Pool,
}

/// Server that a lab wants.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// Storage of the logical unit.
    pub(crate) backend: Backend,
    /// Size of the logical unit in MiB.
    pub(crate) size_mib: u64,
    /// Logical block length in bytes.
    pub(crate) block_size: u32,
    /// Physical block length in bytes.
    pub(crate) physical_block_size: u32,
    /// Whether the unit is write-protected.
    pub(crate) read_only: bool,
    /// Addresses to listen on. Each is a portal group of its own.
    pub(crate) addresses: Vec<String>,
    /// Port for all addresses, or 0 for a free one.
    pub(crate) port: u16,
    /// Namespace in which the server runs.
    pub(crate) namespace: Option<String>,
    /// User and secret that initiators must know.
    pub(crate) chap: Option<(String, String)>,
    /// User and secret by which the target proves itself (mutual CHAP).
    pub(crate) mutual: Option<(String, String)>,
    /// iSNS server with which to register.
    pub(crate) isns: Option<String>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            backend: Backend::Memory,
            size_mib: 256,
            block_size: 512,
            physical_block_size: 4096,
            read_only: false,
            addresses: vec!["127.0.0.1".to_owned()],
            port: 0,
            namespace: None,
            chap: None,
            mutual: None,
            isns: None,
        }
    }
}

/// Server that serves one logical unit.
#[derive(Debug)]
pub(crate) struct Server {
    kind: ServerKind,
    spec: Spec,
    /// IQN of the target.
    pub(crate) target: String,
    /// Number of the logical unit.
    pub(crate) lun: u16,
    file: Option<PathBuf>,
    process: Option<Running>,
    // The folder is the last field, so that it is removed after the process that uses it.
    folder: tempfile::TempDir,
}

/// Report of a server of any kind once it serves.
pub(crate) struct Started {
    /// Process of the daemon.
    pub(crate) process: Running,
    /// IQN of the target.
    pub(crate) target: String,
    /// Number of the logical unit.
    pub(crate) lun: u16,
    /// File behind the logical unit, if there is one.
    pub(crate) file: Option<PathBuf>,
}

impl Server {
    /// Starts `kind`, and returns when it serves.
    ///
    /// # Errors
    /// The server does not start. The message ends with its log.
    pub(crate) fn start(kind: &ServerKind, tools: &Tools, mut spec: Spec) -> Result<Self> {
        if spec.port == 0 {
            spec.port = free_port()?;
        }
        let folder = crate::machine::scratch::folder("lab")?;
        let started = launch(kind, tools, &spec, folder.path(), true)?;
        Ok(Self {
            kind: kind.clone(),
            spec,
            target: started.target,
            lun: started.lun,
            file: started.file,
            process: Some(started.process),
            folder,
        })
    }

    /// Returns `host:port` of portal `path`.
    pub(crate) fn portal(&self, path: usize) -> String {
        format!("{}:{}", self.spec.addresses[path], self.spec.port)
    }

    /// Returns the `iscsi://…` address of the logical unit over portal `path`, with the CHAP
    /// credentials if any.
    pub(crate) fn url(&self, path: usize) -> String {
        let who = match &self.spec.chap {
            Some((user, secret)) => format!("{user}%{secret}@"),
            None => String::new(),
        };
        format!(
            "iscsi://{who}{}/{}/{}",
            self.portal(path),
            self.target,
            self.lun
        )
    }

    /// Returns the address of [`Server::url`] with other credentials.
    pub(crate) fn url_as(&self, user: &str, secret: &str) -> String {
        format!(
            "iscsi://{user}%{secret}@{}/{}/{}",
            self.portal(0),
            self.target,
            self.lun
        )
    }

    /// Kills the server by `kill -9`.
    pub(crate) fn kill_hard(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Starts the server again on its old state and port.
    ///
    /// # Errors
    /// Fails as [`Server::start`] does.
    pub(crate) fn restart(&mut self, tools: &Tools) -> Result<()> {
        self.kill_hard();
        let started = launch(&self.kind, tools, &self.spec, self.folder.path(), false)?;
        self.process = Some(started.process);
        Ok(())
    }

    /// Checks that the daemon did not die by itself.
    ///
    /// # Errors
    /// The daemon died. The message ends with its log.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        let Some(process) = self.process.as_mut() else {
            return Ok(());
        };
        match process.child.try_wait().context("look after the server")? {
            None => Ok(()),
            Some(status) => anyhow::bail!(
                "the server died: {}\n{}",
                crate::machine::process::ended(status),
                log_tail(self.folder.path())
            ),
        }
    }

    /// Returns the bytes that the file behind the logical unit occupies, or `None` if there is no
    /// file.
    pub(crate) fn allocated(&self) -> Option<u64> {
        use std::os::unix::fs::MetadataExt as _;
        self.file
            .as_ref()?
            .metadata()
            .ok()
            .map(|metadata| metadata.blocks() * 512)
    }

    /// Returns the folder for the lab's own files, which is removed with the server.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the end of the server's log.
    pub(crate) fn log(&self) -> String {
        log_tail(self.folder.path())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // tgtd ignores SIGTERM while it has targets, and dies with the value.
            if !matches!(self.kind, ServerKind::Tgt) && !process.terminate(Duration::from_secs(5)) {
                eprintln!("  the daemon did not end within 5 s of SIGTERM and was killed");
            }
        }
        if matches!(self.kind, ServerKind::Tgt) {
            tgt::remove_sockets(self.folder.path());
        }
    }
}

fn launch(
    kind: &ServerKind,
    tools: &Tools,
    spec: &Spec,
    folder: &Path,
    first: bool,
) -> Result<Started> {
    let started = match kind {
        ServerKind::Sandstone(program) => sandstone_daemon::launch(program, spec, folder, first),
        ServerKind::Tgt => tgt::launch(tools, spec, folder),
    };
    started.with_context(|| {
        format!(
            "start the server; the end of its log:\n{}",
            log_tail(folder)
        )
    })
}

/// Returns the file in `folder` that gets a server's log.
pub(crate) fn log_file(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

fn log_tail(folder: &Path) -> String {
    let text = std::fs::read(log_file(folder)).unwrap_or_default();
    crate::machine::process::last_lines(&String::from_utf8_lossy(&text), 15)
}

/// Returns a TCP port of 127.0.0.1 that was free a moment ago.
///
/// # Errors
/// The machine has none.
pub(crate) fn free_port() -> Result<u16> {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").context("find a free port")?;
    Ok(socket.local_addr().context("find a free port")?.port())
}
