//! Stands in for TLS where the cargo feature `tls` is off: what needs it fails, and names the feature.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::HttpConfigError;
use super::dialer::{BoxError, ByteStream};
use super::options::HttpOptions;

const MISSING: HttpConfigError = HttpConfigError::MissingFeature { feature: "tls" };

/// There is nothing to configure.
pub(super) struct TlsConfig;

pub(super) fn require() -> Result<(), HttpConfigError> {
    Err(MISSING)
}

pub(super) fn config(encrypts: bool, options: &HttpOptions) -> Result<TlsConfig, HttpConfigError> {
    let is_needed = encrypts || options.roots.is_some() || options.identity.is_some();
    if is_needed { Err(MISSING) } else { Ok(TlsConfig) }
}

pub(super) async fn connect(
    _stream: Box<dyn ByteStream>,
    _host: String,
    _config: &Arc<TlsConfig>,
) -> Result<Box<dyn ByteStream>, BoxError> {
    Err(MISSING.into())
}

pub(super) fn refused_certificate(_error: &io::Error) -> Option<&'static str> {
    None
}

pub(crate) fn check_roots(_path: &Path) -> Result<(), HttpConfigError> {
    Err(MISSING)
}

pub(crate) fn check_certificate(_path: &Path) -> Result<(), HttpConfigError> {
    Err(MISSING)
}

pub(crate) fn check_key(_certificate: &Path, _key: &Path) -> Result<(), HttpConfigError> {
    Err(MISSING)
}
