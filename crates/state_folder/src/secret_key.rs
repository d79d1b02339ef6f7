//! The key that seals secrets in the daemon's files.
//!
//! A copy of such a file, in a backup of the machine or in a mail to somebody who helps, therefore
//! tells no secret. The key lies in a file of its own, or comes from the service manager as the
//! credential `sandstone.key`, which the disk then does not hold at all.
//!
//! ChaCha20-Poly1305 (RFC 8439) seals each secret alone, with a random nonce.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::hex::{from_hex, to_hex};
use super::private::write_private;

/// Name of the key in the state folder, and of its copy in the history.
const FILE: &str = "secrets.key";
/// Name of the credential that a service manager may give.
const CREDENTIAL: &str = "sandstone.key";
/// Text with which each sealed secret begins.
const SEALED: &str = "sealed:";
/// Bytes of the key.
const KEY_LEN: usize = 32;

/// Key of a state folder's secrets.
pub struct SecretKey {
    key: LessSafeKey,
    unstored: Mutex<Option<Unstored>>,
}

/// New key, and the folder to store it in.
struct Unstored {
    folder: PathBuf,
    text: String,
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key of secrets")
    }
}

impl SecretKey {
    /// Finds the key of a state folder, or draws one. A new key is stored with the first secret. A
    /// folder has one such value at a time, or else two new keys would replace each other.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        Self::with_credentials(folder, credentials.as_deref())
    }

    fn with_credentials(folder: &Path, credentials: Option<&Path>) -> io::Result<Self> {
        if let Some(key) = credentials.and_then(|folder| read(&folder.join(CREDENTIAL))) {
            return Ok(Self::of(&key));
        }
        if let Some(key) = find(folder) {
            return Ok(Self::of(&key));
        }
        let key = random::<KEY_LEN>()?;
        let unstored = Unstored {
            folder: folder.to_owned(),
            text: format!("{}\n", to_hex(&key)),
        };
        Ok(Self {
            unstored: Mutex::new(Some(unstored)),
            ..Self::of(&key)
        })
    }

    /// Finds the key in a folder that another process may be using.
    pub fn peek(folder: &Path) -> Option<Self> {
        find(folder).map(|key| Self::of(&key))
    }

    /// Returns the key with these bytes.
    pub fn of(key: &[u8; KEY_LEN]) -> Self {
        // ChaCha20-Poly1305 takes every key of 32 bytes.
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key of 32 bytes");
        Self {
            key: LessSafeKey::new(key),
            unstored: Mutex::default(),
        }
    }

    /// Stores a new key, before anything that it sealed. The copy comes first, so that the key lies
    /// twice once it has its name.
    fn store(&self) -> io::Result<()> {
        let mut unstored = self.unstored.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Unstored { folder, text }) = &*unstored {
            let history = folder.join("history");
            super::kept_file::make_folder(&history)?;
            for path in [history.join(FILE), folder.join(FILE)] {
                write_private(&path, text.as_bytes(), true).map_err(|error| {
                    io::Error::new(error.kind(), format!("write {}: {error}", path.display()))
                })?;
            }
        }
        *unstored = None;
        Ok(())
    }

    /// Seals a secret, and stores the key first if it is new.
    ///
    /// # Errors
    /// The system gives no random bytes, or a new key cannot be stored.
    pub fn seal(&self, secret: &str) -> io::Result<String> {
        self.store()?;
        let nonce = random::<NONCE_LEN>()?;
        let mut bytes = secret.as_bytes().to_vec();
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::empty(),
                &mut bytes,
            )
            .map_err(|_| io::Error::other("the secret is too long to be sealed"))?;
        Ok(format!("{SEALED}{}{}", to_hex(&nonce), to_hex(&bytes)))
    }

    /// Opens a secret that [`Self::seal`] sealed. Returns `None` if another key sealed it, or it is
    /// damaged.
    pub fn unseal(&self, sealed: &str) -> Option<String> {
        let bytes = from_hex(sealed.strip_prefix(SEALED)?)?;
        let (nonce, rest) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut rest = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.key.open_in_place(nonce, Aad::empty(), &mut rest);
        String::from_utf8(opened.ok()?.to_vec()).ok()
    }
}

/// Reports whether a text of a file is a sealed secret, and not one from before secrets were
/// sealed.
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(SEALED)
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        io::Error::other(format!(
            "the operating system gave no random numbers: {error}"
        ))
    })?;
    Ok(bytes)
}

/// Returns the key in a state folder.
fn find(folder: &Path) -> Option<[u8; KEY_LEN]> {
    read(&folder.join(FILE)).or_else(|| read(&folder.join("history").join(FILE)))
}

fn read(path: &Path) -> Option<[u8; KEY_LEN]> {
    let text = std::fs::read_to_string(path).ok()?;
    from_hex(text.trim())?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const SECRET: &str = "hunter2hunter2";

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    fn key(folder: &tempfile::TempDir) -> SecretKey {
        SecretKey::with_credentials(folder.path(), None).expect("opened")
    }

    #[test]
    fn a_sealed_secret_is_opened_by_its_key_alone() {
        let (one, other) = (folder(), folder());
        let sealed = key(&one).seal(SECRET).expect("sealed");
        assert!(is_sealed(&sealed) && !sealed.contains(SECRET));
        let again = key(&one).seal(SECRET).expect("sealed");
        assert_ne!(sealed, again, "each has a nonce of its own");
        assert_eq!(key(&one).unseal(&sealed).as_deref(), Some(SECRET));
        assert_eq!(key(&other).unseal(&sealed), None);
        assert_eq!(key(&one).unseal(SECRET), None, "it is not sealed");
    }

    #[test]
    fn every_changed_byte_of_a_sealed_secret_is_found() {
        let folder = folder();
        let key = key(&folder);
        let sealed = key.seal(SECRET).expect("sealed");
        for at in 0..sealed.len() {
            let mut text = sealed.clone().into_bytes();
            text[at] = if text[at] == b'0' { b'1' } else { b'0' };
            let text = String::from_utf8(text).expect("text");
            assert_eq!(key.unseal(&text), None, "{at}");
        }
        for broken in ["", "00", "zz", &"0".repeat(24)] {
            assert_eq!(key.unseal(&format!("{SEALED}{broken}")), None, "{broken}");
        }
    }

    #[test]
    fn the_key_lies_twice_and_is_closed_to_others() {
        let folder = folder();
        let sealed = key(&folder).seal(SECRET).expect("sealed");
        let file = folder.path().join(FILE);
        let mode = fs::metadata(&file).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for damage in ["", "damaged"] {
            fs::write(&file, damage).expect("written");
            assert_eq!(key(&folder).unseal(&sealed).as_deref(), Some(SECRET));
        }
        fs::remove_file(&file).expect("removed");
        assert_eq!(key(&folder).unseal(&sealed).as_deref(), Some(SECRET));
    }

    #[test]
    fn a_credential_of_the_service_manager_is_the_key_and_none_is_stored() {
        let (folder, credentials) = (folder(), folder());
        fs::write(credentials.path().join(CREDENTIAL), "7".repeat(64)).expect("written");
        let open = || {
            SecretKey::with_credentials(folder.path(), Some(credentials.path())).expect("opened")
        };
        let sealed = open().seal(SECRET).expect("sealed");
        assert!(!folder.path().join(FILE).exists());
        assert_eq!(open().unseal(&sealed).as_deref(), Some(SECRET));
    }

    #[test]
    fn a_folder_without_secrets_has_no_key() {
        let folder = folder();
        drop(key(&folder));
        assert_eq!(fs::read_dir(folder.path()).expect("read").count(), 0);
        assert!(SecretKey::peek(folder.path()).is_none());
    }
}
