//! TLS 1.2 and 1.3 over [`crate::tcp::Connection`], both sides.
//!
//! An [`Acceptor`] makes a [`Session`] for each connection that comes in, a [`Connector`] for each that goes out; the
//! session is handed the socket for each call and never waits. An acceptor's certificates come from files
//! ([`Identities`]) and can be exchanged while sessions live: sessions that are open keep the old ones, later sessions
//! get the new ones.
//!
//! ```text
//! socket ─read─► ciphertext ─► Session ─► plaintext ─► caller
//! socket ◄─write─ at most 32 KiB of records ◄─ Session ◄─ plaintext ◄─ caller
//! ```

mod certificates;
mod client;
mod session;
mod validity;

pub use certificates::{CertificateFiles, Identities, TlsError};
pub use client::{Connector, Roots, is_untrusted};
pub use session::{Flushed, READ_BYTES_MIN, Received, Session};
pub use validity::Validity;

use certificates::Resolver;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::NoServerSessionStorage;
use std::fmt;
use std::sync::Arc;

/// Makes sessions for connections that come in.
pub struct Acceptor {
    config: Arc<ServerConfig>,
    resolver: Arc<Resolver>,
}

impl Acceptor {
    /// An acceptor of HTTP/1.1 over TLS. Until it is given [`Identities`] every handshake fails.
    ///
    /// # Errors
    /// Where the system gives no random numbers.
    pub fn new() -> Result<Acceptor, TlsError> {
        let resolver = Arc::new(Resolver::default());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::setup)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<Resolver>::clone(&resolver));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Tickets let a client come back without the signature, which is the handshake's price. They are the
        // client's to keep: nothing is stored here.
        config.ticketer = ring::Ticketer::new().map_err(TlsError::setup)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Acceptor { config: Arc::new(config), resolver })
    }

    /// Shows these certificates to clients that connect from now on.
    pub fn use_identities(&self, identities: Identities) {
        self.resolver.set(identities);
    }

    /// Whether a certificate that is shown is for the DNS name `name` (RFC 6125 §6.4, wildcards too). Reads the
    /// certificates anew each time: some microseconds each.
    pub fn has_name(&self, name: &str) -> bool {
        self.resolver.have_name(name)
    }

    /// A session for a connection that has just been accepted.
    pub fn accept(&self) -> Result<Session, TlsError> {
        Session::of_server(Arc::clone(&self.config))
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor(…)")
    }
}
