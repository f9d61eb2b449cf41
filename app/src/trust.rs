//! Which certificate authorities commands trust when they connect to servers over TLS.

use crate::failure;
use anyhow::Result;
use glassline_io::small_file::Accept;
use glassline_io::tls::{Connector, Roots};
use std::path::{Path, PathBuf};

/// `--ca`, for commands that ask servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct Trust {
    /// PEM file with the certificate of the authority that is trusted for https servers, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

/// What to do if a server's certificate is not trusted; `ca` is the file that was given for it.
pub(crate) fn advice(ca: Option<&Path>) -> String {
    match ca {
        Some(file) => format!(
            "its certificate is neither in {}, which --ca names, nor signed by one in it, or is for another name or time; docs/certificates.md \
             shows how to make one",
            file.display()
        ),
        None => "give the file with its certificate, or its authority's, by --ca, or correct the address"
            .to_owned(),
    }
}

impl Trust {
    /// The TLS client. Making it reads all root certificates of the system.
    ///
    /// # Errors
    /// If no certificate can be trusted, with what to do about it.
    pub(crate) fn connector(&self) -> Result<Connector> {
        let roots = self.ca.clone().map_or(Roots::System, Roots::File);
        Connector::new(&roots, Accept::AnyFile).map_err(|error| match roots {
            Roots::File(_) => failure::usage(error, "check --ca"),
            Roots::System => failure::failed(error, "or give the authority's certificate by --ca FILE"),
        })
    }
}
