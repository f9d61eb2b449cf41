//! `encode … link://HOST:PORT`: the options of a link, and how its output is opened.

use crate::config::checked_deadline;
use crate::failure;
use crate::link::{HeaderArgs, Identity, PathArgs, public};
use crate::serve::outgoing_link;
use anyhow::Result;
use glassline_call::contribution::{Connection, DEADLINE, LinkOutput, Outgoing};
use glassline_media::quantity;
use glassline_studio::output::{LinkOpener, Liveness, Output, StatusHandle, Target};
use glassline_transport::link::Key;
use std::path::PathBuf;
use std::time::Duration;

/// How a stream is sent over a link.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Over a link (OUTPUT link://HOST:PORT)")]
pub(super) struct LinkArgs {
    /// File with the key: the key that both ends share, or with --peer the private half of this end's pair
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Public half of the listener's key pair
    #[arg(long, value_name = "PUBLIC", requires = "key", value_parser = public)]
    peer: Vec<Key>,
    /// Connect without a key: for the lab
    #[arg(long, conflicts_with = "key")]
    insecure: bool,
    /// How old packets may be until they are given up; lost ones are sent again until then [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = deadline)]
    deadline: Option<Duration>,
    #[command(flatten)]
    header: HeaderArgs,
    #[command(flatten)]
    paths: PathArgs,
}

fn deadline(text: &str) -> Result<Duration, String> {
    let time = quantity::parse_duration(text).map_err(|error| error.to_string())?;
    checked_deadline(time)
}

impl LinkArgs {
    /// What opens the outputs that are links; `None` where there is none among `outputs`.
    ///
    /// # Errors
    /// An option of links without a link, or a link without a key.
    pub(super) fn opener(&self, outputs: &[Target]) -> Result<Option<LinkOpener>> {
        let Some(link) = outputs.iter().find(|output| matches!(output, Target::Link(_))) else {
            return match self == &LinkArgs::default() {
                true => Ok(None),
                false => Err(failure::usage(
                    "an option is for a link, and no output is one",
                    "write link://HOST:PORT as the output, or leave the option out",
                )),
            };
        };
        if self.key.is_none() && !self.insecure {
            return Err(failure::usage(
                format!("{link} needs a key"),
                "make one (glassline key new FILE), copy it to both ends, and give --key FILE",
            ));
        }
        let identity = Identity::of(self.key.clone(), self.peer.clone(), self.insecure);
        let settings = identity.settings()?;
        self.header.warn();
        let (paths, header) = (self.paths.clone(), self.header);
        // What does not go together is told before anything is opened.
        outgoing_link(String::new(), "", settings.clone(), &paths, header)?;
        let deadline = self.deadline.unwrap_or(DEADLINE);
        let open = move |peer: &str, liveness: Liveness, status: StatusHandle| {
            let name = format!("link://{peer}");
            let (way, twice) = outgoing_link(name, peer, settings.clone(), &paths, header)
                .map_err(|error| error.to_string())?;
            let outgoing = Outgoing::new(deadline, twice);
            let connection = Connection::start(way, outgoing);
            Ok(Box::new(LinkOutput::new(connection, liveness, status)) as Box<dyn Output>)
        };
        Ok(Some(Box::new(open)))
    }
}
