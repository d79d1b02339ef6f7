//! The vault: secrets of the configuration, sealed in the file and open in memory.
//!
//! # The key is lost
//! Secrets that the key does not open stay sealed in the file, and nobody logs in with them. All
//! else is served. If the key comes back, so do they.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::redact::for_each_secret;
use model::config::Config;
use model::error::{Error, ErrorKind};
use state_folder::hex::to_hex;
use state_folder::{SecretKey, is_sealed};

/// Secrets of a configuration.
#[derive(Debug)]
pub(super) struct Vault {
    key: Arc<SecretKey>,
    /// Sealed texts that the key does not open, by the random secrets that stand for them in
    /// memory.
    unopened: Mutex<HashMap<String, String>>,
}

impl Vault {
    /// Opens the vault of a state folder.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let key = SecretKey::open(folder);
        key.map(|key| Self::of(Arc::new(key))).map_err(|source| {
            Error::new(
                ErrorKind::Storage,
                source.to_string(),
                "check /dev/urandom, then try again",
            )
        })
    }

    /// Finds the key in a folder that another process may be using. Without it no secret is opened,
    /// and none is sealed.
    pub(super) fn peek(folder: &Path) -> Option<Self> {
        SecretKey::peek(folder).map(|key| Self::of(Arc::new(key)))
    }

    pub(super) fn of(key: Arc<SecretKey>) -> Self {
        Self {
            key,
            unopened: Mutex::default(),
        }
    }

    /// Returns the key, which seals the secrets of other files too.
    pub(super) fn key(&self) -> &Arc<SecretKey> {
        &self.key
    }

    /// Returns the number of secrets that the key does not open.
    pub(super) fn closed(&self) -> usize {
        self.unopened
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
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
            if !is_sealed(secret) {
                // Written before secrets were sealed: the next save seals it.
                return;
            }
            let opened = self.key.unseal(secret);
            *secret = opened.unwrap_or_else(|| self.stand_in(secret));
        });
    }

    fn seal(&self, secret: &str) -> Result<String, Error> {
        let unopened = self.unopened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sealed) = unopened.get(secret) {
            return Ok(sealed.clone());
        }
        let sealed = self.key.seal(secret);
        sealed.map_err(|error| Error::storage("seal a secret of the configuration", error))
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

#[cfg(test)]
mod tests {
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
        tempfile::tempdir().expect("a folder")
    }

    fn vault(folder: &tempfile::TempDir) -> Vault {
        Vault::open(folder.path()).expect("opened")
    }

    #[test]
    fn a_sealed_configuration_is_opened_by_its_key_alone() {
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
    fn a_folder_without_secrets_has_no_key() {
        let folder = folder();
        vault(&folder)
            .sealed(&Config::default())
            .expect("nothing to seal");
        assert!(!folder.path().join("secrets.key").exists());
    }

    #[test]
    fn a_secret_of_an_older_file_is_taken_as_it_is() {
        let mut old = config(SECRET);
        vault(&folder()).unseal(&mut old);
        assert_eq!(old, config(SECRET));
    }
}
