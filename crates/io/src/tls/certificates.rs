//! Certificates and their keys, from files.

use crate::secret_file::{self, SecretFileError};
use crate::small_file::{self, Accept, SmallFileError};
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use thiserror::Error;

/// Where a certificate and its key lie, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The server's certificate, and behind it those that lead to a root: what certbot calls `fullchain.pem`.
    pub chain: PathBuf,
    /// Its private key, not encrypted.
    pub key: PathBuf,
}

/// Why TLS cannot be spoken. No message tells what is in a key's file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or not within the bounds of such files.
    #[error(transparent)]
    File(#[from] SmallFileError),
    /// A file holds something else.
    #[error("{file} holds no {what}", file = file.display())]
    Lacks {
        /// The file.
        file: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// A private key that others may read, or that is none.
    #[error(transparent)]
    Secret(SecretFileError),
    /// A certificate or key of no use.
    #[error("{chain} with {key}: {reason}", chain = files.chain.display(), key = files.key.display())]
    Unusable {
        /// Where they lie.
        files: CertificateFiles,
        /// What is wrong.
        reason: String,
    },
    /// The system has no certificates of authorities.
    #[error("this system trusts no authority{0}; install its certificates (Debian: ca-certificates)")]
    NoRoots(String),
    /// A server's name that no certificate can have.
    #[error("{0:?} is no name that a certificate can be for")]
    Name(String),
    /// TLS itself cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Setup(String),
}

impl TlsError {
    pub(super) fn setup(error: rustls::Error) -> TlsError {
        TlsError::Setup(error.to_string())
    }
}

/// The certificates that a server shows, with their keys.
#[derive(Default)]
pub struct Identities {
    keys: Vec<Arc<CertifiedKey>>,
}

impl Identities {
    /// Reads them; the first is for clients that ask for a name that none has, or for none. Fails unless all are good
    /// and no key's file may be read by others ([`secret_file`]).
    pub fn read(files: &[CertificateFiles], accept: Accept) -> Result<Identities, TlsError> {
        let keys = files.iter().map(|files| read(files, accept).map(Arc::new));
        Ok(Identities { keys: keys.collect::<Result<_, _>>()? })
    }

    /// Whether one of the certificates is for the DNS name `name`.
    fn have_name(&self, name: &str) -> bool {
        let name = ServerName::try_from(name).ok().filter(|name| matches!(name, ServerName::DnsName(_)));
        name.is_some_and(|name| self.keys.iter().any(|key| has_name(key, &name)))
    }

    /// The first that has `name` and that `suits` the client; without one, the first that suits.
    fn choose(
        &self,
        name: Option<&ServerName<'_>>,
        suits: impl Fn(&CertifiedKey) -> bool,
    ) -> Option<Arc<CertifiedKey>> {
        let suiting = || self.keys.iter().filter(|key| suits(key));
        let named = name.and_then(|name| suiting().find(|key| has_name(key, name)));
        named.or_else(|| suiting().next()).cloned()
    }
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identities({})", self.keys.len())
    }
}

/// Whether `name` is among those of the certificate (RFC 6125 §6.4, wildcards too).
fn has_name(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let certificate = key.cert.first().and_then(|certificate| ParsedCertificate::try_from(certificate).ok());
    certificate.is_some_and(|certificate| verify_server_name(&certificate, name).is_ok())
}

fn read(files: &CertificateFiles, accept: Accept) -> Result<CertifiedKey, TlsError> {
    let lacks = |file: &Path, what| TlsError::Lacks { file: file.into(), what };
    let unusable = |error: rustls::Error| {
        let reason = match error {
            rustls::Error::InconsistentKeys(_) => "the key is not the certificate's".into(),
            rustls::Error::InvalidCertificate(_) => "the certificate cannot be read".into(),
            other => other.to_string(),
        };
        TlsError::Unusable { files: files.clone(), reason }
    };
    let chain = small_file::read(&files.chain, accept)?;
    let key = secret_file::read(&files.key, accept).map_err(|error| match error {
        SecretFileError::File(error) => TlsError::File(error),
        error => TlsError::Secret(error),
    })?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .map_err(|_| lacks(&files.chain, "certificate in PEM"))?;
    let first = chain.first().ok_or_else(|| lacks(&files.chain, "certificate in PEM"))?;
    ParsedCertificate::try_from(first).map_err(unusable)?;
    // The parser's own words may repeat a line of the file.
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|_| lacks(&files.key, "private key in PEM, or one that is encrypted"))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(unusable)
}

/// Chooses the certificate for each handshake.
#[derive(Debug, Default)]
pub(super) struct Resolver(RwLock<Arc<Identities>>);

impl Resolver {
    pub(super) fn set(&self, identities: Identities) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(identities);
    }

    pub(super) fn have_name(&self, name: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).have_name(name)
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let identities = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let schemes = hello.signature_schemes();
        identities.choose(name.as_ref(), |key| key.key.choose_scheme(schemes).is_some())
    }
}
