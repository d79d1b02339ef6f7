//! The vault: secrets of the configuration, sealed in the file and open in memory.
//!
//! A copy of the configuration, in a backup of the machine or in a mail to somebody who helps,
//! therefore tells no secret. The key lies beside the file, or comes from the service manager as
//! the credential `sandstone.key`, which the disk then does not hold at all.
//!
//! ChaCha20-Poly1305 (RFC 8439) seals each secret alone, with a random nonce.
//!
//! # The key is lost
//! Secrets that the key does not open stay sealed in the file, and nobody logs in with them. All
//! else is served. If the key comes back, so do they.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::hex::{from_hex, to_hex};
use crate::redact::for_each_secret;
use model::config::Config;
use model::error::{Error, ErrorKind};
use state_folder::write_private;

/// Name of the key in the state folder, and of its copy in the history.
const FILE: &str = "secrets.key";
/// Name of the credential that a service manager may give.
const CREDENTIAL: &str = "sandstone.key";
/// Text with which each sealed secret begins.
const SEALED: &str = "sealed:";
const KEY_LEN: usize = 32;

/// Key of a state folder's secrets.
pub(super) struct Vault {
    key: LessSafeKey,
    unstored: Mutex<Option<Unstored>>,
    /// Sealed texts that the key does not open, by the random secrets that stand for them in
    /// memory.
    unopened: Mutex<HashMap<String, String>>,
}

/// New key, and the folder to store it in.
struct Unstored {
    folder: PathBuf,
    text: String,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a vault")
    }
}

impl Vault {
    /// Finds the key of a state folder, or draws one. A new key is stored with the first secret.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        Self::with_credentials(folder, credentials.as_deref())
    }

    fn with_credentials(folder: &Path, credentials: Option<&Path>) -> Result<Self, Error> {
        if let Some(key) = credentials.and_then(|folder| read(&folder.join(CREDENTIAL))) {
            return Self::of(&key);
        }
        if let Some(key) = find(folder) {
            return Self::of(&key);
        }
        let mut key = [0; KEY_LEN];
        getrandom::fill(&mut key).map_err(|source| {
            Error::new(
                ErrorKind::Storage,
                format!("the operating system gave no random numbers: {source}"),
                "check /dev/urandom, then try again",
            )
        })?;
        let unstored = Unstored {
            folder: folder.to_owned(),
            text: format!("{}\n", to_hex(&key)),
        };
        Ok(Self {
            unstored: Mutex::new(Some(unstored)),
            ..Self::of(&key)?
        })
    }

    /// Finds the key in a folder that another process may be using. Without it no secret is opened,
    /// and none is sealed.
    pub(super) fn peek(folder: &Path) -> Option<Self> {
        Self::of(&find(folder)?).ok()
    }

    pub(super) fn of(key: &[u8]) -> Result<Self, Error> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).map_err(|_| {
            Error::new(
                ErrorKind::Corrupt,
                "the key of the secrets has the wrong length",
                "restore secrets.key, or remove it and set the secrets again",
            )
        })?;
        Ok(Self {
            key: LessSafeKey::new(key),
            unstored: Mutex::default(),
            unopened: Mutex::default(),
        })
    }

    /// Returns the number of secrets that the key does not open.
    pub(super) fn closed(&self) -> usize {
        self.unopened
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Stores a new key, before anything that it sealed. The copy comes first, so that the key lies
    /// twice once it has its name.
    fn store_key(&self) -> Result<(), Error> {
        let mut unstored = self.unstored.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Unstored { folder, text }) = &*unstored {
            for path in [folder.join("history").join(FILE), folder.join(FILE)] {
                write_private(&path, text.as_bytes(), true)
                    .map_err(|error| Error::storage(format!("write {}", path.display()), error))?;
            }
        }
        *unstored = None;
        Ok(())
    }

    /// Returns the configuration with every secret sealed, as the file holds it.
    ///
    /// # Errors
    /// The system gives no random bytes, or a new key cannot be stored.
    pub(super) fn sealed(&self, config: &Config) -> Result<Config, Error> {
        let mut sealed = config.clone();
        let mut failure = None;
        for_each_secret(&mut sealed, &mut |secret| match self.seal(secret) {
            Ok(text) => *secret = text,
            Err(error) => failure = Some(error),
        });
        match failure {
            None => Ok(sealed),
            Some(error) => Err(error),
        }
    }

    /// Opens every secret of a configuration from a file.
    pub(super) fn unseal(&self, config: &mut Config) {
        for_each_secret(config, &mut |secret| {
            let Some(sealed) = secret.strip_prefix(SEALED) else {
                // Written before secrets were sealed: the next save seals it.
                return;
            };
            let opened = self.unseal_one(sealed);
            *secret = opened.unwrap_or_else(|| self.stand_in(secret));
        });
    }

    fn seal(&self, secret: &str) -> Result<String, Error> {
        self.store_key()?;
        let unopened = self.unopened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sealed) = unopened.get(secret) {
            return Ok(sealed.clone());
        }
        let failed = |what: &str| {
            let next = "check /dev/urandom, then try again";
            Error::new(
                ErrorKind::Storage,
                format!("a secret could not be sealed: {what}"),
                next,
            )
        };
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| failed("there are no random numbers"))?;
        let mut bytes = secret.as_bytes().to_vec();
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::empty(),
                &mut bytes,
            )
            .map_err(|_| failed("it is too long"))?;
        Ok(format!("{SEALED}{}{}", to_hex(&nonce), to_hex(&bytes)))
    }

    fn unseal_one(&self, sealed: &str) -> Option<String> {
        let bytes = from_hex(sealed)?;
        let (nonce, rest) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut rest = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self
            .key
            .open_in_place(nonce, Aad::empty(), &mut rest)
            .ok()?;
        String::from_utf8(opened.to_vec()).ok()
    }

    /// Returns a secret that nobody knows, in place of one that cannot be opened.
    fn stand_in(&self, sealed: &str) -> String {
        let mut bytes = [0; 24];
        // Without random bytes the stand-in is the sealed text, which is no secret to root alone.
        let secret = match getrandom::fill(&mut bytes) {
            Ok(()) => to_hex(&bytes),
            Err(_) => sealed.chars().rev().take(64).collect(),
        };
        let mut unopened = self.unopened.lock().unwrap_or_else(PoisonError::into_inner);
        unopened.insert(secret.clone(), sealed.to_owned());
        secret
    }
}

/// Returns the key in a state folder.
fn find(folder: &Path) -> Option<Vec<u8>> {
    read(&folder.join(FILE)).or_else(|| read(&folder.join("history").join(FILE)))
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let text = std::fs::read_to_string(path).ok()?;
    from_hex(text.trim()).filter(|key| key.len() == KEY_LEN)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use model::config::{ChapSecret, HostSpec};

    const SECRET: &str = "hunter2hunter2";

    fn config(secret: &str) -> Config {
        let chap = ChapSecret {
            user: "esx".to_owned(),
            secret: secret.to_owned(),
        };
        Config {
            hosts: vec![HostSpec {
                name: "esx".to_owned(),
                chap: Some(chap.clone()),
                initiators: Vec::new(),
                except: Vec::new(),
            }],
            discovery_chap: Some(chap),
            ..Config::default()
        }
    }

    fn secret(config: &Config) -> &str {
        &config.hosts[0].chap.as_ref().expect("has one").secret
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("history")).expect("made");
        folder
    }

    fn vault(folder: &tempfile::TempDir) -> Vault {
        Vault::with_credentials(folder.path(), None).expect("opened")
    }

    #[test]
    fn a_sealed_secret_is_opened_by_its_key_alone() {
        let (one, other) = (folder(), folder());
        let sealed = vault(&one).sealed(&config(SECRET)).expect("sealed");
        let discovery = sealed.discovery_chap.clone().expect("has one").secret;
        assert!(!format!("{} {discovery}", secret(&sealed)).contains("hunter2"));
        assert_ne!(secret(&sealed), discovery, "each has a nonce of its own");
        let mut opened = sealed.clone();
        vault(&one).unseal(&mut opened);
        assert_eq!(opened, config(SECRET));
        let mut closed = sealed.clone();
        let foreign = vault(&other);
        foreign.unseal(&mut closed);
        assert_eq!(foreign.closed(), 2);
        assert!(secret(&closed) != SECRET && (12..=255).contains(&secret(&closed).len()));
        // A save with the wrong key loses nothing: with the right one, the secret is back.
        let mut again = foreign.sealed(&closed).expect("sealed");
        assert_eq!(again, sealed);
        vault(&one).unseal(&mut again);
        assert_eq!(secret(&again), SECRET);
    }

    #[test]
    fn every_changed_byte_of_a_sealed_secret_is_found() {
        let folder = folder();
        let vault = vault(&folder);
        let sealed = vault.seal(SECRET).expect("sealed");
        for at in SEALED.len()..sealed.len() {
            let mut text = sealed.clone().into_bytes();
            text[at] = if text[at] == b'0' { b'1' } else { b'0' };
            let text = String::from_utf8(text).expect("text");
            assert_eq!(vault.unseal_one(&text[SEALED.len()..]), None, "{at}");
        }
        for broken in ["", "00", "zz", &"0".repeat(24)] {
            assert_eq!(vault.unseal_one(broken), None, "{broken}");
        }
    }

    #[test]
    fn the_key_lies_twice_and_is_closed_to_others() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = folder();
        let mut sealed = vault(&folder).sealed(&config(SECRET)).expect("sealed");
        let file = folder.path().join(FILE);
        let mode = fs::metadata(&file).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for damage in ["", "damaged"] {
            fs::write(&file, damage).expect("written");
            let mut opened = sealed.clone();
            vault(&folder).unseal(&mut opened);
            assert_eq!(secret(&opened), SECRET);
        }
        fs::remove_file(&file).expect("removed");
        vault(&folder).unseal(&mut sealed);
        assert_eq!(secret(&sealed), SECRET);
    }

    #[test]
    fn a_credential_of_the_service_manager_is_the_key_and_none_is_stored() {
        let (folder, credentials) = (folder(), folder());
        fs::write(credentials.path().join(CREDENTIAL), "7".repeat(64)).expect("written");
        let open =
            || Vault::with_credentials(folder.path(), Some(credentials.path())).expect("opened");
        let mut sealed = open().sealed(&config(SECRET)).expect("sealed");
        assert!(!folder.path().join(FILE).exists());
        open().unseal(&mut sealed);
        assert_eq!(secret(&sealed), SECRET);
    }

    #[test]
    fn a_folder_without_secrets_has_no_key() {
        let folder = folder();
        vault(&folder)
            .sealed(&Config::default())
            .expect("nothing to seal");
        assert!(!folder.path().join(FILE).exists());
    }

    #[test]
    fn a_secret_of_an_older_file_is_taken_as_it_is() {
        let mut old = config(SECRET);
        vault(&folder()).unseal(&mut old);
        assert_eq!(old, config(SECRET));
    }
}
