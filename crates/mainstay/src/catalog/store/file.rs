//! The format of a stored catalog: a line that names the format, its version and the hash of the rest; then JSON.
//!
//! The hash tells a damaged file from a sound one, which JSON alone does not: a flipped bit inside a text is still JSON.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::Stored;
use crate::catalog::names::Hasher;
use crate::catalog::{About, CacheScope, Caching, ItemList, Kind, ServerCatalog};
use crate::wire::RawJson;

const MAGIC: &str = "mainstay-catalog";
/// Grows when an older Mainstay could misread a newer file.
const VERSION: &str = "1";

/// Why a file is of no use.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("it is no stored catalog")]
    Foreign,
    #[error("it was written in another version of the format")]
    Version,
    #[error("it is damaged")]
    Damaged,
    #[error("it belongs to another server identity")]
    Identity,
}

/// The JSON after the first line.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredBody {
    identity: String,
    server: String,
    era: Option<String>,
    listed_at_ms: u64,
    protocol_version: Option<String>,
    server_info: Option<RawJson>,
    capabilities: Option<RawJson>,
    instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    modern_capabilities: Option<RawJson>,
    tools: Vec<RawJson>,
    prompts: Vec<RawJson>,
    resources: Vec<RawJson>,
    resource_templates: Vec<RawJson>,
    /// Which of the four lists the server marked private, in this order.
    #[serde(default)]
    private: [bool; 4],
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_extensions: Option<RawJson>,
}

pub(super) fn encode(stored: &Stored) -> Vec<u8> {
    let about = stored.catalog.about().clone();
    let raw = |kind| {
        stored
            .catalog
            .listed(kind)
            .map(|item| item.raw().clone())
            .collect()
    };
    let since_epoch = stored
        .listed_at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let body = StoredBody {
        identity: stored.identity.clone(),
        server: stored.server.clone(),
        era: stored.era.clone(),
        listed_at_ms: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
        protocol_version: about.protocol_version,
        server_info: about.server_info,
        capabilities: about.capabilities,
        instructions: about.instructions,
        modern_capabilities: about.modern_capabilities,
        tools: raw(Kind::Tool),
        prompts: raw(Kind::Prompt),
        resources: raw(Kind::Resource),
        resource_templates: raw(Kind::Template),
        private: Kind::ALL.map(|kind| stored.catalog.caching(kind).is_some_and(Caching::is_private)),
        client_extensions: stored.extensions.clone(),
    };
    let json = serde_json::to_vec(&body).expect("texts, numbers and raw JSON can be written as JSON");
    let mut bytes = first_line(&json).into_bytes();
    bytes.extend_from_slice(&json);
    bytes
}

/// What stands before the JSON.
pub(super) fn first_line(json: &[u8]) -> String {
    format!("{MAGIC} {VERSION} {}\n", hash(json))
}

pub(super) fn decode(bytes: &[u8], identity: &str) -> Result<Stored, DecodeError> {
    let json = body_of(bytes)?;
    let body: StoredBody = serde_json::from_slice(json).map_err(|_| DecodeError::Damaged)?;
    if body.identity != identity {
        return Err(DecodeError::Identity);
    }
    let listed_at = SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_millis(body.listed_at_ms))
        .ok_or(DecodeError::Damaged)?;
    let about = About {
        protocol_version: body.protocol_version,
        server_info: body.server_info,
        capabilities: body.capabilities,
        instructions: body.instructions,
        modern_capabilities: body.modern_capabilities,
    };
    let lists = [body.tools, body.prompts, body.resources, body.resource_templates];
    let listings = Kind::ALL.into_iter().zip(lists).zip(body.private);
    let listings = listings.map(|((kind, items), is_private)| ItemList {
        items,
        // How long it may be kept was over with the process that listed it; whom it is for was not.
        caching: is_private.then_some(Caching {
            ttl: None,
            scope: Some(CacheScope::Private),
        }),
        ..ItemList::empty(kind)
    });
    Ok(Stored {
        catalog: ServerCatalog::new(&body.server, about, listings),
        identity: body.identity,
        server: body.server,
        era: body.era,
        listed_at,
        extensions: body.client_extensions,
    })
}

/// The JSON of a file whose first line fits it.
fn body_of(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let rest = bytes.strip_prefix(MAGIC.as_bytes()).ok_or(DecodeError::Foreign)?;
    let rest = rest.strip_prefix(b" ").ok_or(DecodeError::Foreign)?;
    let line_end = rest
        .iter()
        .position(|&byte| byte == b'\n')
        .ok_or(DecodeError::Damaged)?;
    let line = std::str::from_utf8(&rest[..line_end]).map_err(|_| DecodeError::Damaged)?;
    let json = &rest[line_end + 1..];
    let (version, claimed) = line.split_once(' ').ok_or(DecodeError::Damaged)?;
    if version != VERSION {
        return Err(DecodeError::Version);
    }
    if claimed != hash(json) {
        return Err(DecodeError::Damaged);
    }
    Ok(json)
}

fn hash(json: &[u8]) -> String {
    let mut hasher = Hasher::default();
    hasher.part(json);
    hasher.finish().to_string()
}

/// Stored catalogs: one that is not as it was written is refused, and one that is read is written the same.
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz {
    use super::{DecodeError, decode, encode, first_line};
    use crate::catalog::Stored;

    /// What every file of the fuzzer says that it is of.
    const IDENTITY: &str = "c0ffee";

    /// Reads any file, and one whose first line fits the input.
    pub fn stored_catalog(input: &[u8]) {
        if let Ok(stored) = decode(input, IDENTITY) {
            assert_written_the_same(&stored);
        }
        let mut whole = first_line(input).into_bytes();
        whole.extend_from_slice(input);
        match decode(&whole, IDENTITY) {
            Ok(stored) => {
                assert_written_the_same(&stored);
                for damaged in [whole.len() - 1, whole.len() / 2, 3] {
                    let mut file = whole.clone();
                    file[damaged] ^= 1;
                    assert!(decode(&file, IDENTITY).is_err(), "a flipped bit is noticed");
                }
            }
            Err(why) => assert!(
                matches!(why, DecodeError::Damaged | DecodeError::Identity),
                "{why}"
            ),
        }
    }

    fn assert_written_the_same(stored: &Stored) {
        let written = encode(stored);
        let again = decode(&written, IDENTITY).expect("what was written can be read");
        assert_eq!(encode(&again), written);
        assert_eq!(again.catalog, stored.catalog);
        assert_eq!(again.listed_at, stored.listed_at);
        assert_eq!(
            (again.server, again.era),
            (stored.server.clone(), stored.era.clone())
        );
    }
}
