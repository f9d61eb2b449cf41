//! Pictures from uncompressed video over RTP, at the time of their stamps.

use super::prepare::Prepare;
use super::{Length, Outlet};
use crate::capture::{Error, Result};
use crate::raw::described::{self, Options};
use crate::raw::receive::Receiver;
use glassline_io::clock::Clock;
use glassline_media::{Colour, FieldOrder, FrameRate};
use std::path::Path;
use std::time::Duration;

/// How often a stream that brings nothing is left for a look whether the user wants to end.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long nothing may come before that is told, once.
const SILENCE: Duration = Duration::from_secs(3);

/// A stream that is being received.
pub(super) struct Opened {
    pub(super) receiver: Receiver,
    pub(super) rate: FrameRate,
    pub(super) colour: Colour,
    pub(super) sample_aspect: Option<(u32, u32)>,
    pub(super) fields: Option<FieldOrder>,
}

/// Begins to receive what `description` tells of, at `rate` where it says none.
pub(super) fn open(
    description: &Path,
    options: &Options,
    rate: Option<FrameRate>,
    clock: Clock,
) -> Result<Opened> {
    let description = described::read(description)?;
    let (flow, video) = described::video(&description)?;
    let settings = described::settings(&description, options)?;
    let rate = video.rate.or(rate).ok_or(Error::NoRate)?;
    let receiver = Receiver::start(&settings, clock)
        .map_err(|error| Error::Receive { addresses: described::addresses(flow), error })?;
    let (colour, fields) = (settings.colour, settings.fields);
    Ok(Opened { receiver, rate, colour, sample_aspect: Some(video.pixel_aspect), fields })
}

/// Hands over what comes until the socket fails, the length is reached or the end is asked for.
pub(super) fn run(
    receiver: &mut Receiver,
    prepare: &mut Prepare,
    length: Length,
    outlet: &mut Outlet<'_>,
) -> Result<()> {
    let mut dropped = 0;
    let began = outlet.clock.now();
    // Until something has come, or its absence was told.
    let mut is_awaited = true;
    loop {
        if outlet.consumer.is_stopped() {
            return Ok(());
        }
        let next = receiver.next(PATIENCE).map_err(Error::DeviceFailed)?;
        if is_awaited && next.is_none() && outlet.clock.now().since(began) > SILENCE {
            tracing::warn!(
                "no picture has come yet: is the sender on, does the group reach this interface (interface=NAME), does a firewall \
                 drop it? glassline probe rtp:FILE.sdp tells what comes"
            );
            is_awaited = false;
        }
        let Some(frame) = next else { continue };
        is_awaited = false;
        let all = receiver.report().counters.dropped;
        if all > dropped {
            outlet.consumer.count_dropped(all - dropped);
            dropped = all;
        }
        for picture in prepare.pictures(frame.picture) {
            let captured = picture.captured;
            if length.ends_before(outlet.number, outlet.rate)
                || !outlet.push_at(picture, captured, frame.ended)
            {
                return Ok(());
            }
        }
    }
}
