//! The client's side: whom to trust, and sessions with servers.

use super::{Session, TlsError};
use crate::small_file::{self, Accept};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as RustlsError, RootCertStore,
    SignatureScheme,
};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The certificates that are trusted to sign a server's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Roots {
    /// Those that the system trusts, as OpenSSL finds them (`SSL_CERT_FILE` and `SSL_CERT_DIR` go before its paths).
    #[default]
    System,
    /// Those of a file in PEM alone: a private authority's, or the server's own certificate.
    File(PathBuf),
}

/// Makes sessions with servers. Costs a read of all roots: one is kept and used for all connections, so that servers
/// can resume a session.
#[derive(Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
}

impl Connector {
    /// A client of HTTP/1.1 over TLS that trusts `roots`; a file of them has to be what `accept` says.
    ///
    /// # Errors
    /// [`TlsError::File`] and [`TlsError::Lacks`] of a file; [`TlsError::NoRoots`] where the system trusts no
    /// certificate.
    pub fn new(roots: &Roots, accept: Accept) -> Result<Connector, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::setup)?;
        let mut config = match roots {
            Roots::System => builder.with_root_certificates(of_system()?).with_no_client_auth(),
            Roots::File(file) => {
                let named = of_file(file, accept)?;
                let verifier = Named::new(named, provider).map_err(TlsError::setup)?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Connector { config: Arc::new(config) })
    }

    /// The same for another protocol than HTTP: no protocol is named in the handshake. A server that has HTTP at the same port, or
    /// checks the name, would otherwise take the connection for HTTP or refuse it.
    #[must_use]
    pub fn without_protocol(&self) -> Connector {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols.clear();
        Connector { config: Arc::new(config) }
    }

    /// A session with the server that is called `host`, a name or an IP number without brackets. Nothing has been sent:
    /// [`Session::flush`] begins the handshake, and [`Session::read`] goes on with it.
    ///
    /// # Errors
    /// [`TlsError::Name`] where no certificate could be for `host`.
    pub fn connect(&self, host: &str) -> Result<Session, TlsError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name(host.to_owned()))?;
        Session::of_client(Arc::clone(&self.config), name)
    }
}

/// Whether a handshake has failed since the server's certificate is not trusted: by no authority that is, for another name, or out of
/// date. One that is not valid yet is none of those: a clock may be set later.
pub fn is_untrusted(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<RustlsError>());
    match error {
        Some(RustlsError::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => false,
        Some(RustlsError::InvalidCertificate(_)) => true,
        _ => false,
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector(…)")
    }
}

fn of_system() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Old stores hold a few that no parser takes.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map(|error| format!(" ({error})"));
        return Err(TlsError::NoRoots(why.unwrap_or_default()));
    }
    Ok(roots)
}

fn of_file(file: &Path, accept: Accept) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let lacks = || TlsError::Lacks { file: file.into(), what: "certificate in PEM" };
    let pem = small_file::read(file, accept)?;
    let named: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let named = named.map_err(|_| lacks())?;
    let mut roots = RootCertStore::empty();
    let is_good = named.iter().all(|certificate| roots.add(certificate.clone()).is_ok());
    if is_good && !named.is_empty() { Ok(named) } else { Err(lacks()) }
}

/// Accepts a server with a certificate that is signed by one of a file, or that is itself one of the file. The one that
/// `openssl req -x509` makes says of itself that it is an authority's, and no path of RFC 5280 §6.1 ends with such a
/// certificate.
#[derive(Debug)]
struct Named {
    certificates: Vec<CertificateDer<'static>>,
    by_path: Arc<WebPkiServerVerifier>,
}

impl Named {
    fn new(
        certificates: Vec<CertificateDer<'static>>,
        provider: Arc<rustls::crypto::CryptoProvider>,
    ) -> Result<Named, RustlsError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let by_path = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| RustlsError::General(error.to_string()))?;
        Ok(Named { certificates, by_path })
    }

    /// Whether the one thing that is wrong with a server's certificate is that it is an authority's. That is looked at behind
    /// its dates, and before the server's name.
    fn is_only_an_authority(error: &RustlsError) -> bool {
        let RustlsError::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
        matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
    }
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        let error = match self.by_path.verify_server_cert(certificate, others, name, ocsp, now) {
            Err(error) if self.certificates.contains(certificate) => error,
            verified => return verified,
        };
        let is_named = if Named::is_only_an_authority(&error) {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
        } else {
            Err(error)
        };
        match is_named {
            // It names no server at all, and is the one that was given for this.
            Err(RustlsError::InvalidCertificate(CertificateError::NotValidForNameContext {
                presented,
                ..
            })) if presented.is_empty() => Ok(ServerCertVerified::assertion()),
            is_named => is_named.map(|()| ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.by_path.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.by_path.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_path.supported_verify_schemes()
    }
}
