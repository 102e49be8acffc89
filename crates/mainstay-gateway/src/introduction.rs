//! What a client says of itself, in either era: with `initialize`, or with each request. A server of its own is told the same.

use mainstay::Introduction;
use mainstay::message::{Object, RawJson, RpcError};

use crate::protocol::{LEGACY_VERSIONS, RequestMeta, invalid_params};

/// What a client says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// What it can answer.
    pub(crate) capabilities: RawJson,
    /// Who it is, where it says so.
    info: Option<RawJson>,
    /// The legacy version that it is answered in.
    pub(crate) version: &'static str,
}

impl Said {
    /// What the parameters of `initialize` say.
    pub(crate) fn of_initialize(params: Option<&RawJson>) -> Result<Self, RpcError> {
        let params = params.and_then(Object::parse);
        let params = params.ok_or_else(|| invalid_params("initialize needs parameters"))?;
        let asked: Option<String> = params
            .get("protocolVersion")
            .and_then(|version| version.parse().ok());
        let asked = asked.ok_or_else(|| invalid_params("initialize needs a protocolVersion"))?;
        let known = LEGACY_VERSIONS.into_iter().find(|known| *known == asked);
        Ok(Self {
            capabilities: params
                .get("capabilities")
                .cloned()
                .unwrap_or(RawJson::EMPTY_OBJECT),
            info: params.get("clientInfo").cloned(),
            version: known.unwrap_or(LEGACY_VERSIONS[0]),
        })
    }

    /// What a modern request says.
    pub(crate) fn of_request(meta: &RequestMeta) -> Self {
        Self {
            capabilities: meta.capabilities.clone().unwrap_or(RawJson::EMPTY_OBJECT),
            info: meta.client_info.clone(),
            version: LEGACY_VERSIONS[0],
        }
    }

    /// The same without the message that it came in, which is not kept for as long as a session or a server lives.
    pub(crate) fn kept(&self) -> Self {
        Self {
            capabilities: copy(&self.capabilities),
            info: self.info.as_ref().map(copy),
            version: self.version,
        }
    }

    /// How a server is told of this client.
    pub(crate) fn introduction(&self) -> Introduction {
        let Self {
            capabilities,
            info,
            version,
        } = self.kept();
        let introduction = Introduction::new(capabilities).protocol_version(version);
        match info {
            Some(info) => introduction.client_info(info),
            None => introduction,
        }
    }
}

fn copy(raw: &RawJson) -> RawJson {
    RawJson::from_text(raw.as_str()).unwrap_or(RawJson::EMPTY_OBJECT)
}
