//! `preview:`, an output that is a web page: a relay inside this process, with the player of `serve`.

use crate::encode::explain as explain_encoder;
use crate::failure;
use crate::output;
use crate::serve::{Arrangement, PageSite, where_to_look};
use anyhow::Result;
use glassline_call::direct::PublishTo;
use glassline_delivery::policy::StreamName;
use glassline_relay::{Listen, Relay, Settings};
use glassline_studio::encode::Supervisor;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

const SCHEME: &str = "preview:";
/// Default address: not the port of `serve`, which is 8080, and only for this machine.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8081));
/// Name of the stream on that relay.
const STREAM: &str = "preview";

/// The running page. Dropping it closes its connections.
pub(super) struct Preview {
    relay: Relay,
    name: StreamName,
}

/// The address at which the page that `output` names is served; `None` if `output` names no page.
pub(super) fn address(output: &str) -> Result<Option<SocketAddr>> {
    let Some(address) = output.strip_prefix(SCHEME) else { return Ok(None) };
    if address.is_empty() {
        return Ok(Some(DEFAULT_ADDRESS));
    }
    address.parse().map(Some).map_err(|_| {
        failure::usage(
            format!("{output}: {address:?} is no address of this machine and a port"),
            format!("write {SCHEME} (it is at {DEFAULT_ADDRESS} then), or {SCHEME}127.0.0.1:9000"),
        )
    })
}

impl Preview {
    /// Listens at `address`, and logs the page's URL.
    pub(super) fn start(address: SocketAddr) -> Result<Preview> {
        let name = StreamName::parse(STREAM).expect("a name that is one");
        let settings = Settings {
            listen: vec![Listen::from(address)],
            // There are few viewers, and the processors are needed for receiving.
            workers: 1,
            reserved: [name.clone()].into(),
            ..Settings::default()
        };
        let listen = settings.listen.clone();
        let encoders = Arc::new(Supervisor::new(explain_encoder));
        let site = Arc::new(PageSite::new(Arrangement::default(), encoders, Arc::default(), Arc::default()));
        let relay = Relay::start(settings, site).map_err(|error| {
            failure::failed(
                error,
                format!("name a free port of this machine, as in {SCHEME}127.0.0.1:0, which takes any"),
            )
        })?;
        output::print_aside(&where_to_look(&listen, &relay.addresses(), Some(STREAM)))?;
        Ok(Preview { relay, name })
    }

    /// Where the shown stream is published.
    pub(super) fn destination(&self) -> PublishTo {
        PublishTo::Relay { streams: Arc::clone(self.relay.hub().live_streams()), name: self.name.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_for_this_machine_where_nothing_else_is_said() {
        assert_eq!(address("preview:").unwrap(), Some(DEFAULT_ADDRESS));
        assert_eq!(address("preview:[::]:80").unwrap(), Some("[::]:80".parse().unwrap()));
        assert_eq!(address("preview.y4m").unwrap(), None);
        let refused = address("preview:8081").unwrap_err().to_string();
        assert!(refused.contains("no address of this machine and a port"), "{refused}");
    }
}
