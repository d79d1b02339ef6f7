//! The sources of CHAP secrets and passwords: a file, the environment, or a question without echo.
//! The command line is no source, because every user of the machine can read it.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::{Failure, Terminal};
use crate::grammar::whole_file;
use config::change::SetChap;
use model::access::Password;
use model::{Error, ErrorKind};

/// Environment variables that secrets are taken from.
const SECRET: &str = "SANDSTONE_CHAP_SECRET";
const MUTUAL_SECRET: &str = "SANDSTONE_MUTUAL_CHAP_SECRET";

/// User to log in as, and the proof that the target must give.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct LoginSecrets {
    /// CHAP user name; the secret is asked for, or taken from --secret-file or
    /// SANDSTONE_CHAP_SECRET
    #[arg(short, long, value_name = "NAME")]
    pub(super) user: Option<String>,
    /// Read the secret from the first line of this file, - for standard input
    #[arg(long, value_name = "PATH", requires = "user")]
    secret_file: Option<PathBuf>,
    /// User name that the target must prove to have (mutual CHAP); its secret comes from
    /// --mutual-secret-file, SANDSTONE_MUTUAL_CHAP_SECRET, or is asked for
    #[arg(long, value_name = "NAME", requires = "user")]
    mutual_user: Option<String>,
    /// Read the target's secret from the first line of this file
    #[arg(long, value_name = "PATH", requires = "mutual_user")]
    mutual_secret_file: Option<PathBuf>,
}

impl LoginSecrets {
    /// Reads our user and secret, and the target's.
    pub(super) fn read(
        &self,
        t: &mut Terminal<'_>,
    ) -> Result<(Option<SetChap>, Option<SetChap>), Failure> {
        let file = self.secret_file.as_deref();
        let ours = one(t, self.user.as_deref(), file, SECRET)?;
        let file = self.mutual_secret_file.as_deref();
        let theirs = one(t, self.mutual_user.as_deref(), file, MUTUAL_SECRET)?;
        Ok((ours, theirs))
    }
}

fn one(
    t: &mut Terminal<'_>,
    user: Option<&str>,
    file: Option<&Path>,
    variable: &str,
) -> Result<Option<SetChap>, Failure> {
    let Some(user) = user else {
        return Ok(None);
    };
    let secret = match (file, std::env::var(variable), t.ask.as_mut()) {
        (Some(path), ..) => from_file(path)?,
        (None, Ok(secret), _) => secret,
        (None, Err(_), Some(ask)) => {
            let _hidden = Hidden::begin();
            let secret = ask(&format!("CHAP secret of {user}: "))?;
            secret.trim_end_matches(['\r', '\n']).to_owned()
        }
        (None, Err(_), None) => {
            let message =
                format!("no CHAP secret of {user} was given, and there is no terminal to ask on");
            let next =
                format!("name a file that holds it (- for standard input), or set {variable}");
            return Err(Error::invalid(message, next).into());
        }
    };
    let user = user.to_owned();
    Ok(Some(SetChap { user, secret }))
}

/// Reads a passphrase: the first line of a file, or typed text. A passphrase that seals something
/// is typed twice.
pub(super) fn passphrase(
    t: &mut Terminal<'_>,
    file: Option<&Path>,
    is_new: bool,
) -> Result<String, Failure> {
    if let Some(path) = file {
        return Ok(from_file(path)?);
    }
    let Some(ask) = t.ask.as_mut() else {
        let message = "a passphrase is needed, and there is no terminal to ask on";
        let next = "name a file that holds it: --passphrase-file PATH (- for standard input, /dev/fd/3 for a descriptor)";
        return Err(Error::invalid(message, next).into());
    };
    let mut typed = |question: &str| -> Result<String, Failure> {
        let _hidden = Hidden::begin();
        Ok(ask(question)?.trim_end_matches(['\r', '\n']).to_owned())
    };
    let passphrase = typed("Passphrase: ")?;
    if is_new && typed("Once more: ")? != passphrase {
        let message = "the two passphrases differ";
        return Err(Error::invalid(message, "type the same passphrase twice").into());
    }
    Ok(passphrase)
}

/// Reads the new password of a user: the first line of a file, or typed twice.
pub(super) fn password(
    t: &mut Terminal<'_>,
    user: &str,
    file: Option<&Path>,
) -> Result<Password, Failure> {
    if let Some(path) = file {
        return Ok(Password(from_file(path)?));
    }
    let Some(ask) = t.ask.as_mut() else {
        let message =
            format!("the password of {user} is needed, and there is no terminal to ask on");
        let next = "name a file that holds it: --password-file PATH (- for standard input)";
        return Err(Error::invalid(message, next).into());
    };
    let mut typed = |question: &str| -> Result<String, Failure> {
        let _hidden = Hidden::begin();
        Ok(ask(question)?.trim_end_matches(['\r', '\n']).to_owned())
    };
    let password = typed(&format!("New password of {user}: "))?;
    if typed("Once more: ")? != password {
        let message = "the two passwords differ";
        return Err(Error::invalid(message, "type the same password twice").into());
    }
    Ok(Password(password))
}

/// Reads the first line of a file, or of standard input for `-`.
pub(super) fn from_file(path: &Path) -> Result<String, Error> {
    let text = whole_file::text(path, whole_file::SECRET).map_err(|e| {
        Error::new(
            ErrorKind::Storage,
            format!("the secret could not be read from {}: {e}", path.display()),
            "check the path",
        )
    })?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Guard that hides typed text while it lives, if standard input is a terminal.
struct Hidden(Option<Termios>);

impl Hidden {
    fn begin() -> Self {
        let Ok(before) = tcgetattr(io::stdin()) else {
            return Self(None);
        };
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        match tcsetattr(io::stdin(), OptionalActions::Now, &hidden) {
            Ok(()) => Self(Some(before)),
            Err(_) => Self(None),
        }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // If this fails, `stty echo` helps.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
            // The user's line end was not shown either.
            let _ = io::Write::write_all(&mut io::stderr(), b"\n");
        }
    }
}
