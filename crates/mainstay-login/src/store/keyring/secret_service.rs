//! Reads and makes the key in the Secret Service of the session (<https://specifications.freedesktop.org/secret-service/>).
//!
//! The key crosses the bus as plain text: a program of this user that could listen there could as well ask for the key.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::KeyringFailure;
use super::bus::{BusError, SessionBus};
use super::wire::{MethodCall, Reply, WireReader, WireWriter};
use crate::store::key::{KEY_LENGTH, key_of};

/// How long the keyring may take for all answers. The bus may have to start it.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(10);

const SERVICE: &str = "org.freedesktop.secrets";
const SERVICE_PATH: &str = "/org/freedesktop/secrets";
const SERVICE_INTERFACE: &str = "org.freedesktop.Secret.Service";
const COLLECTION_INTERFACE: &str = "org.freedesktop.Secret.Collection";
const ITEM_INTERFACE: &str = "org.freedesktop.Secret.Item";
const PROPERTIES_INTERFACE: &str = "org.freedesktop.DBus.Properties";

/// The collection that lives in memory.
const SESSION_COLLECTION: &str = "/org/freedesktop/secrets/collection/session";

/// The path that stands for no object.
const NO_OBJECT: &str = "/";

type Key = [u8; KEY_LENGTH];

/// The key in this item.
pub(in crate::store) fn read_key(item: &str) -> Result<Key, KeyringFailure> {
    let mut keyring = Keyring::open()?;
    match keyring.find(item)? {
        Some(path) => keyring.secret(&path, item),
        // A locked collection may hide its items.
        None if keyring.default_collection_is_locked()? => Err(KeyringFailure::Locked),
        None => Err(KeyringFailure::Missing {
            item: item.to_owned(),
        }),
    }
}

/// A new key, kept in this item of the default collection.
pub(in crate::store) fn make_key(item: &str) -> Result<Key, KeyringFailure> {
    let mut key = [0; KEY_LENGTH];
    let filled = SystemRandom::new().fill(&mut key);
    filled.map_err(|_unspecified| KeyringFailure::Refused("the system gave no random numbers".to_owned()))?;
    let mut keyring = Keyring::open()?;
    let collection = keyring.default_collection()?;
    if keyring.is_volatile(&collection)? {
        return Err(KeyringFailure::Volatile);
    }
    keyring.create(&collection, item, &key)?;
    // A key that cannot be read again would lose the logins.
    match keyring.find(item)? {
        Some(path) if keyring.secret(&path, item)? == key => Ok(key),
        Some(_) | None => Err(KeyringFailure::Missing {
            item: item.to_owned(),
        }),
    }
}

/// A session with the Secret Service. It ends with its connection.
struct Keyring {
    bus: SessionBus,
    session: String,
}

impl Keyring {
    fn open() -> Result<Self, KeyringFailure> {
        let bus = SessionBus::connect(KEYRING_TIMEOUT);
        let bus = bus.map_err(|error| KeyringFailure::Unreachable(error.to_string()))?;
        let mut keyring = Self {
            bus,
            session: String::new(),
        };
        let mut body = WireWriter::default();
        body.text("plain");
        body.signature("s");
        body.text("");
        let reply = keyring.call(SERVICE_PATH, SERVICE_INTERFACE, "OpenSession", "sv", body)?;
        let mut arguments = arguments(&reply, "vo")?;
        keyring.session = read(|| {
            if arguments.signature()? == "s" {
                arguments.text()?;
            }
            Ok(arguments.text()?.to_owned())
        })?;
        Ok(keyring)
    }

    /// The item with the key of this store.
    fn find(&mut self, item: &str) -> Result<Option<String>, KeyringFailure> {
        let mut body = WireWriter::default();
        body.attributes(&attributes(item));
        let reply = self.call(SERVICE_PATH, SERVICE_INTERFACE, "SearchItems", "a{ss}", body)?;
        let mut arguments = arguments(&reply, "aoao")?;
        let (unlocked, locked) = read(|| Ok((arguments.texts()?, arguments.texts()?)))?;
        match (unlocked.first(), locked.first()) {
            (Some(path), _) => Ok(Some((*path).to_owned())),
            (None, Some(_)) => Err(KeyringFailure::Locked),
            (None, None) => Ok(None),
        }
    }

    fn secret(&mut self, path: &str, item: &str) -> Result<Key, KeyringFailure> {
        let mut body = WireWriter::default();
        body.text(&self.session);
        let reply = self.call(path, ITEM_INTERFACE, "GetSecret", "o", body)?;
        let mut arguments = arguments(&reply, "(oayays)")?;
        let secret = read(|| {
            arguments.align(8)?;
            let (_session, _parameters) = (arguments.text()?, arguments.byte_array()?);
            arguments.byte_array()
        })?;
        key_of(secret).ok_or_else(|| KeyringFailure::NoKey {
            item: item.to_owned(),
        })
    }

    fn create(&mut self, collection: &str, item: &str, key: &Key) -> Result<(), KeyringFailure> {
        let mut body = WireWriter::default();
        body.array(8, |properties| {
            properties.align(8);
            properties.text("org.freedesktop.Secret.Item.Label");
            properties.signature("s");
            properties.text("Mainstay: the key of the logins");
            properties.align(8);
            properties.text("org.freedesktop.Secret.Item.Attributes");
            properties.signature("a{ss}");
            properties.attributes(&attributes(item));
        });
        body.align(8);
        body.text(&self.session);
        body.byte_array(&[]);
        body.byte_array(STANDARD.encode(key).as_bytes());
        body.text("text/plain");
        body.bool(false);
        let types = "a{sv}(oayays)b";
        let reply = self.call(collection, COLLECTION_INTERFACE, "CreateItem", types, body)?;
        let mut arguments = arguments(&reply, "oo")?;
        let (made, _prompt) = read(|| Ok((arguments.text()?, arguments.text()?)))?;
        // The keyring would ask a person first.
        if made == NO_OBJECT {
            return Err(KeyringFailure::Locked);
        }
        Ok(())
    }

    fn default_collection(&mut self) -> Result<String, KeyringFailure> {
        match self.alias("default")? {
            path if path == NO_OBJECT => Err(KeyringFailure::NoCollection),
            path => Ok(path),
        }
    }

    fn default_collection_is_locked(&mut self) -> Result<bool, KeyringFailure> {
        let collection = self.alias("default")?;
        if collection == NO_OBJECT {
            return Ok(false);
        }
        let mut body = WireWriter::default();
        body.text(COLLECTION_INTERFACE);
        body.text("Locked");
        let reply = self.call(&collection, PROPERTIES_INTERFACE, "Get", "ss", body)?;
        let mut arguments = arguments(&reply, "v")?;
        read(|| Ok(arguments.signature()? == "b" && arguments.bool()?))
    }

    fn is_volatile(&mut self, collection: &str) -> Result<bool, KeyringFailure> {
        Ok(collection == SESSION_COLLECTION || collection == self.alias("session")?)
    }

    /// The collection of this alias.
    fn alias(&mut self, name: &str) -> Result<String, KeyringFailure> {
        let mut body = WireWriter::default();
        body.text(name);
        let reply = self.call(SERVICE_PATH, SERVICE_INTERFACE, "ReadAlias", "s", body)?;
        let mut arguments = arguments(&reply, "o")?;
        read(|| Ok(arguments.text()?.to_owned()))
    }

    fn call(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        signature: &str,
        body: WireWriter,
    ) -> Result<Reply, KeyringFailure> {
        let answered = self.bus.call(&MethodCall {
            destination: SERVICE,
            path,
            interface,
            member,
            signature,
            body,
        });
        answered.map_err(|error| match &error {
            BusError::Refused { name, .. } if name == "org.freedesktop.Secret.Error.IsLocked" => {
                KeyringFailure::Locked
            }
            // No service of this name runs, or the bus cannot start it.
            BusError::Refused { name, .. } if name.starts_with("org.freedesktop.DBus.Error.") => {
                KeyringFailure::Unreachable(error.to_string())
            }
            BusError::Refused { .. } => KeyringFailure::Refused(error.to_string()),
            BusError::Io(_) | BusError::Malformed => KeyringFailure::Unreachable(error.to_string()),
        })
    }
}

/// The attributes by which an item is found.
fn attributes(item: &str) -> [(&'static str, &str); 2] {
    [("service", "mainstay"), ("store", item)]
}

fn arguments<'a>(reply: &'a Reply, types: &str) -> Result<WireReader<'a>, KeyringFailure> {
    read(|| reply.arguments(types))
}

fn read<T>(values: impl FnOnce() -> Result<T, super::wire::Malformed>) -> Result<T, KeyringFailure> {
    values().map_err(|_malformed| KeyringFailure::Refused("its answer cannot be read".to_owned()))
}
