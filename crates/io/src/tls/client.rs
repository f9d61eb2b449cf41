//! The client's side: whom to trust, and sessions with servers.

use super::{Session, TlsError};
use crate::small_file::{self, Accept};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whose signature makes a server's certificate a good one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Roots {
    /// Those that the system trusts, as OpenSSL finds them (`SSL_CERT_FILE` and `SSL_CERT_DIR` go before its paths).
    #[default]
    System,
    /// Those of a file in PEM and nobody else: a private authority's, or the server's own certificate.
    File(PathBuf),
}

/// Makes sessions with servers. Costs a read of all roots; is to be kept and used for each connection, whose servers then
/// know it again (session resumption).
#[derive(Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
}

impl Connector {
    /// A client of HTTP/1.1 over TLS that trusts `roots`; a file of them is to be what `accept` says.
    ///
    /// # Errors
    /// [`TlsError::File`] and [`TlsError::Lacks`] of a file; [`TlsError::NoRoots`] where the system trusts nobody.
    pub fn new(roots: &Roots, accept: Accept) -> Result<Connector, TlsError> {
        let roots = match roots {
            Roots::System => of_system()?,
            Roots::File(file) => of_file(file, accept)?,
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::setup)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Connector { config: Arc::new(config) })
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

fn of_file(file: &Path, accept: Accept) -> Result<RootCertStore, TlsError> {
    let lacks = || TlsError::Lacks { file: file.into(), what: "certificate in PEM" };
    let pem = small_file::read(file, accept)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.map_err(|_| lacks())?).map_err(|_| lacks())?;
    }
    if roots.is_empty() { Err(lacks()) } else { Ok(roots) }
}
