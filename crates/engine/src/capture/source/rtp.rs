//! Pictures from uncompressed video over RTP, at the time of their stamps.

use super::prepare::Prepare;
use super::{Length, Outlet};
use crate::capture::{Error, Result};
use crate::raw::described::{self, Options};
use crate::raw::receive::{PathNews, PathWatch, Receiver};
use glassline_io::clock::Clock;
use glassline_media::{Colour, FieldOrder, FrameRate, Time};
use glassline_transport::raw_video;
use std::path::Path;
use std::time::Duration;

/// How often a stream that brings nothing is left for a look whether the user wants to end.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long nothing may come before that is told, once.
const SILENCE: Duration = Duration::from_secs(3);
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
    let mut silence = Silence::since(outlet.clock.now());
    let mut looked = outlet.clock.now();
    loop {
        if outlet.consumer.is_stopped() {
            return Ok(());
        }
        let next = receiver.next(PATIENCE).map_err(Error::DeviceFailed)?;
        let now = outlet.clock.now();
        silence.follow(next.is_some(), now);
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
struct Silence {
    newest: Time,
    has_come: bool,
    was_told: bool,
}

impl Silence {
    fn since(now: Time) -> Silence {
        Silence { newest: now, has_come: false, was_told: false }
    }

    fn follow(&mut self, comes: bool, now: Time) {
        if comes {
            if self.was_told && self.has_come {
                tracing::info!("pictures come again");
            }
            *self = Silence { newest: now, has_come: true, was_told: false };
        } else if !self.was_told && now.since(self.newest) > SILENCE {
            self.was_told = true;
            if self.has_come {
                tracing::warn!("the sender has stopped: no picture has come for {SILENCE:?}");
            } else {
                tracing::warn!(
                    "no picture has come yet: is the sender on, does the group reach this interface (interface=NAME), does a \
                     firewall drop it? glassline probe rtp:FILE.sdp tells what comes"
                );
            }
        }
    }
}
