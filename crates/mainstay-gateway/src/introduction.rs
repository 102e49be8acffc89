//! What a client says of itself: with `initialize`, or with each modern request. The gateway introduces it so to a server of its own.

use mainstay::gateway::Introduction;
use mainstay::gateway::message::{Params, RawJson, RpcError};

use crate::protocol::{ClientMeta, LEGACY_VERSIONS, invalid_params};

/// The longest introduction, in bytes: it is kept as long as its session. Clients send a few hundred; there is room for icons, too.
const INTRODUCTION_LIMIT: usize = 64 * 1024;

/// What a client says of itself.
#[derive(Clone, Debug)]
pub(crate) struct ClientIntroduction {
    /// What it can answer.
    pub(crate) capabilities: RawJson,
    /// Who it is, where it says so.
    info: Option<RawJson>,
    /// The legacy version that it is answered in.
    pub(crate) version: &'static str,
}

impl ClientIntroduction {
    /// What the parameters of `initialize` say.
    pub(crate) fn of_initialize(params: &Params) -> Result<Self, RpcError> {
        if !params.is_object() {
            return Err(invalid_params("initialize needs parameters"));
        }
        let asked: Option<String> = params
            .get("protocolVersion")
            .and_then(|version| version.parse().ok());
        let asked = asked.ok_or_else(|| invalid_params("initialize needs a protocolVersion"))?;
        let known = LEGACY_VERSIONS.into_iter().find(|known| *known == asked);
        let introduction = Self {
            capabilities: params
                .get("capabilities")
                .cloned()
                .unwrap_or(RawJson::EMPTY_OBJECT),
            info: params.get("clientInfo").cloned(),
            version: known.unwrap_or(LEGACY_VERSIONS[0]),
        };
        let bytes = introduction.bytes();
        if bytes > INTRODUCTION_LIMIT {
            return Err(invalid_params(format!(
                "the capabilities and the clientInfo have {bytes} bytes, and {INTRODUCTION_LIMIT} are the most: leave out what \
                 servers do not need, such as pictures"
            )));
        }
        Ok(introduction)
    }

    /// How many bytes are kept of it.
    pub(crate) fn bytes(&self) -> usize {
        let info = self.info.as_ref().map_or(0, |info| info.as_bytes().len());
        self.capabilities.as_bytes().len() + info
    }

    /// Who the client says it is.
    pub(crate) fn info(&self) -> Option<RawJson> {
        self.info.clone()
    }

    /// What a modern request says.
    pub(crate) fn of_request(meta: &ClientMeta) -> Self {
        Self {
            capabilities: meta.capabilities.clone().unwrap_or(RawJson::EMPTY_OBJECT),
            info: meta.client_info.clone(),
            version: LEGACY_VERSIONS[0],
        }
    }

    /// A copy, so that the message is not kept for as long as a session or a server lives.
    pub(crate) fn copied(&self) -> Self {
        Self {
            capabilities: copy(&self.capabilities),
            info: self.info.as_ref().map(copy),
            version: self.version,
        }
    }

    /// How the gateway introduces this client to a server.
    pub(crate) fn to_server(&self) -> Introduction {
        let Self {
            capabilities,
            info,
            version,
        } = self.copied();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_introduction_that_is_too_long_is_refused() {
        let params = |icon: usize, capability: usize| {
            let (icon, capability) = ("x".repeat(icon), "y".repeat(capability));
            let params = format!(
                r#"{{"protocolVersion":"2025-11-25","clientInfo":{{"name":"{icon}"}},"capabilities":{{"{capability}":{{}}}}}}"#
            );
            Params::new(Some(RawJson::from_text(params).unwrap()))
        };
        let half = INTRODUCTION_LIMIT / 2;
        let said = ClientIntroduction::of_initialize(&params(half, half - 100)).unwrap();
        assert!(said.bytes() > INTRODUCTION_LIMIT - 100, "{}", said.bytes());
        let error = ClientIntroduction::of_initialize(&params(half, half + 1)).unwrap_err();
        assert_eq!(error.code(), RpcError::INVALID_PARAMS);
        assert!(error.message().contains("65536 are the most"), "{error:?}");
    }
}
