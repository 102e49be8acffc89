//! Whom this client trusts, and as whom it shows itself.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::Verifier;
use tokio_rustls::TlsConnector;

use super::HttpConfigError;
use super::dialer::{BoxError, ByteStream};
use super::options::{HttpOptions, Identity};

/// The longest file of certificates or keys: twenty times the certificates of a whole system.
const MAX_PEM_BYTES: u64 = 4 * 1024 * 1024;

pub(super) type TlsConfig = ClientConfig;

/// Addresses that begin with https:// can be reached.
#[expect(
    clippy::unnecessary_wraps,
    reason = "without the cargo feature `tls` it fails"
)]
pub(super) fn require() -> Result<(), HttpConfigError> {
    Ok(())
}

/// Encrypts a stream to this host.
pub(super) async fn connect(
    stream: Box<dyn ByteStream>,
    host: String,
    config: &Arc<TlsConfig>,
) -> Result<Box<dyn ByteStream>, BoxError> {
    let name = ServerName::try_from(host)?;
    Ok(Box::new(
        TlsConnector::from(config.clone()).connect(name, stream).await?,
    ))
}

/// What the server wants of its client's certificate, where it refused the client for that.
pub(super) fn refused_certificate(error: &io::Error) -> Option<&'static str> {
    let rustls::Error::AlertReceived(alert) = error.get_ref()?.downcast_ref()? else {
        return None;
    };
    match alert {
        AlertDescription::CertificateRequired => Some("asks for a certificate of its client"),
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA => Some("does not accept the certificate of its client"),
        _other => None,
    }
}

/// How connections are encrypted, where they are: to the server, or to a proxy before it.
pub(super) fn config(encrypts: bool, options: &HttpOptions) -> Result<TlsConfig, HttpConfigError> {
    let roots = match &options.roots {
        Some(path) => certificates(path)?,
        None => Vec::new(),
    };
    let identity = options.identity.as_ref().map(read_identity).transpose()?;
    let config = builder()?;
    let config = if encrypts {
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier::new_with_extra_roots(roots, provider).map_err(|error| failed(&error))?;
        config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
    } else {
        // Nothing is encrypted, and the certificates of the system need not even be there.
        config.with_root_certificates(RootCertStore::empty())
    };
    match identity {
        Some((chain, key)) => config
            .with_client_auth_cert(chain, key)
            .map_err(|error| failed(&error)),
        None => Ok(config.with_no_client_auth()),
    }
}

/// Whether this file holds certificates that can be trusted. Reads nothing else.
pub(crate) fn check_roots(path: &Path) -> Result<(), HttpConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// Whether this file holds certificates.
pub(crate) fn check_certificate(path: &Path) -> Result<(), HttpConfigError> {
    certificates(path).map(drop)
}

/// Whether the key file holds a key, and that of the certificate. Reads nothing else.
pub(crate) fn check_key(certificate: &Path, key: &Path) -> Result<(), HttpConfigError> {
    let key = private_key(key)?;
    let chain = certificates(certificate)?;
    let config = builder()?.with_root_certificates(RootCertStore::empty());
    config
        .with_client_auth_cert(chain, key)
        .map(drop)
        .map_err(|error| failed(&error))
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, HttpConfigError> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))
}

fn failed(error: &rustls::Error) -> HttpConfigError {
    HttpConfigError::Tls(error.to_string())
}

fn read_identity(
    identity: &Identity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), HttpConfigError> {
    Ok((certificates(&identity.certificate)?, private_key(&identity.key)?))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, HttpConfigError> {
    let pem = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => Err(no_pem(path, "certificate")),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, HttpConfigError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|_| no_pem(path, "private key"))
}

/// The whole file. What is no file, such as a pipe, could keep its reader for ever.
fn read(path: &Path) -> Result<Vec<u8>, HttpConfigError> {
    let unreadable = |source| HttpConfigError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unreadable(io::Error::other("it is not a file")));
    }
    if metadata.len() > MAX_PEM_BYTES {
        let refused = format!("it is longer than {MAX_PEM_BYTES} bytes");
        return Err(unreadable(io::Error::other(refused)));
    }
    std::fs::read(path).map_err(unreadable)
}

fn no_pem(path: &Path, what: &'static str) -> HttpConfigError {
    HttpConfigError::NoPem {
        path: path.to_owned(),
        what,
    }
}
