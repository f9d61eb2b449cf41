//! Pictures from uncompressed video over RTP, at the time of their stamps.

use super::prepare::Prepare;
use super::{Length, Outlet};
use crate::capture::{Error, Result};
use crate::raw::described::{self, Options};
use crate::raw::receive::{PathNews, PathWatch, Receiver, SILENCE, StreamNews, StreamWatch};
use glassline_io::clock::Clock;
use glassline_media::{Colour, FieldOrder, FrameRate};
use glassline_transport::raw_video;
use std::path::Path;
use std::time::Duration;

/// How often a stream that brings nothing is left for a look whether the user wants to end.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// How often it is looked at what each path brings.
const LOOK: Duration = Duration::from_secs(1);

/// A stream that is being received.
pub(super) struct Received {
    receiver: Receiver,
    paths: PathWatch,
}

impl Received {
    pub(super) fn format(&self) -> raw_video::Format {
        self.receiver.format()
    }
}

/// A stream that is being received, and what its pictures are.
pub(super) struct Opened {
    pub(super) received: Received,
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
    let received = Received { receiver, paths: PathWatch::new(described::path_addresses(flow)) };
    Ok(Opened { received, rate, colour, sample_aspect: Some(video.pixel_aspect), fields })
}

/// Hands over what comes until the socket fails, the length is reached or the end is asked for.
pub(super) fn run(
    Received { receiver, paths }: &mut Received,
    prepare: &mut Prepare,
    length: Length,
    outlet: &mut Outlet<'_>,
) -> Result<()> {
    let mut dropped = 0;
    let mut silence = StreamWatch::new(outlet.clock.now());
    let mut looked = outlet.clock.now();
    loop {
        if outlet.consumer.is_stopped() {
            return Ok(());
        }
        let next = receiver.next(STOP_CHECK_INTERVAL).map_err(Error::DeviceFailed)?;
        let now = outlet.clock.now();
        silence.follow(next.is_some(), now).into_iter().for_each(tell);
        if now.since(looked) >= LOOK {
            looked = now;
            paths.follow(&receiver.report().counters, now).iter().for_each(PathNews::tell);
        }
        let Some(frame) = next else { continue };
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

/// Tells where no pictures come, and that they come again.
fn tell(news: StreamNews) {
    match news {
        StreamNews::Absent => tracing::warn!(
            "no picture has come yet: is the sender on, does the group reach this interface (interface=NAME), does a firewall \
             drop it? glassline probe rtp:FILE.sdp tells what comes"
        ),
        StreamNews::Stopped => {
            tracing::warn!("the sender has stopped: no picture has come for {SILENCE:?}");
        }
        StreamNews::Back => tracing::info!("pictures come again"),
    }
}
