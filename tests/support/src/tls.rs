//! Certificates for tests, and a TLS client that trusts them.

use crate::http;
use crate::program::Scratch;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

/// A certificate for some names, signed by itself, and its key.
#[derive(Debug)]
pub struct Identity {
    /// The certificate in PEM.
    pub chain: String,
    /// The key in PEM.
    pub key: String,
    /// The certificate as it comes in a handshake.
    pub der: Vec<u8>,
}

impl Identity {
    /// One for `names`: DNS names, wildcards among them, or addresses.
    pub fn new(names: &[&str]) -> Identity {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        Identity {
            chain: pem("CERTIFICATE", made.cert.der()),
            key: pem("PRIVATE KEY", &made.signing_key.serialize_der()),
            der: made.cert.der().to_vec(),
        }
    }

    /// One as `openssl req -x509` makes it: it says of itself that it is an authority's. It is good until the first day of
    /// `until_year`.
    pub fn authority(names: &[&str], until_year: i32) -> Identity {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).expect("names");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(until_year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        Identity {
            chain: pem("CERTIFICATE", certificate.der()),
            key: pem("PRIVATE KEY", &key.serialize_der()),
            der: certificate.der().to_vec(),
        }
    }

    /// Writes it as `NAME.pem` and `NAME.key` into a folder.
    pub fn write(&self, folder: &Scratch, name: &str) {
        folder.write(&format!("{name}.pem"), &self.chain);
        let key = folder.write(&format!("{name}.key"), &self.key);
        std::fs::set_permissions(key, PermissionsExt::from_mode(0o600)).expect("a key file");
    }
}

/// RFC 7468.
fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// A TLS connection.
pub type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A client that trusts `identities` and nobody else.
pub fn client(identities: &[&Identity]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for identity in identities {
        roots.add(CertificateDer::from(identity.der.clone())).expect("a certificate");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS 1.2 and 1.3");
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

/// Connects to `address` and asks for `name`. The handshake takes place with the first bytes.
pub fn connect(address: SocketAddr, name: &str, client: &Arc<ClientConfig>) -> Stream {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let connection = ClientConnection::new(Arc::clone(client), name).expect("a client");
    StreamOwned::new(connection, http::connect(address))
}

/// The certificate that the server has shown; the handshake must be over.
pub fn shown(stream: &Stream) -> Vec<u8> {
    let chain = stream.conn.peer_certificates().expect("a certificate was shown");
    chain[0].to_vec()
}
