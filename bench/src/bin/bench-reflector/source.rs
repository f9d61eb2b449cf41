//! The source as a process of its own, so that it does not wait for a load generator that has too much to do.

use crate::case::Case;
use crate::servers::OUR_PATH;
use anyhow::{Context, Result};
use glassline_bench::machine;
use glassline_bench::process::Server;
use std::net::SocketAddr;

/// `glassline lab load source`, publishing to a Glassline.
pub(crate) struct Source(Server);

/// How long frames waited until the server took them, milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) median: f64,
    pub(crate) longest: f64,
}

impl Source {
    /// Begins to publish.
    pub(crate) fn publish(address: SocketAddr, case: Case, core: Option<usize>) -> Result<Source> {
        let (url, rate) = (format!("http://{address}{OUR_PATH}"), format!("{}k", case.bitrate / 1000));
        let frames = case.frames.to_string();
        let arguments = ["lab", "load", "source", &url, "--rate", &rate, "--frames", &frames];
        Ok(Source(Server::start(Server::folder("source")?, core, &machine::glassline()?, arguments)?))
    }

    /// Fails where it has ended: the server has let it go.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        self.0.check_alive().context("the source")
    }

    /// Ends it.
    pub(crate) fn end(mut self) -> Result<Waits> {
        self.check_alive()?;
        let told = self.0.interrupt()?;
        parse(&told).with_context(|| format!("the source tells no wait: {told}"))
    }
}

/// "a frame waited 0.0 ms (median) to 1.5 ms (longest) until the server took it"
fn parse(told: &str) -> Option<Waits> {
    let (_, waits) = told.split_once("a frame waited ")?;
    let number = |text: &str| text.trim().trim_end_matches("ms").trim().parse().ok();
    let (median, rest) = waits.split_once("(median) to ")?;
    let (longest, _) = rest.split_once("(longest)")?;
    Some(Waits { median: number(median)?, longest: number(longest)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_source_tells_is_read() {
        let waits = parse("5 frames\na frame waited 0.1 ms (median) to 12.5 ms (longest) until …").unwrap();
        assert_eq!((waits.median, waits.longest), (0.1, 12.5));
        assert!(parse("5 frames").is_none());
    }
}
