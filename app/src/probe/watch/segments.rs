//! A watch of a stream that comes in segments: HLS or DASH, by playlist or manifest.

use super::{ANSWER, TURN, Watch};
use crate::probe::Args;
use crate::trust;
use crate::{failure, output};
use anyhow::Result;
use glassline_delivery::http1::{Url, UrlError};
use glassline_delivery::playlist::rewrite::PlaylistKind;
use glassline_inspect::http::HttpFailure;
use glassline_inspect::segmented::{CallFailure, Piece, Session, SessionError};
use glassline_io::clock::Clock;
use glassline_media::Time;
use std::sync::atomic::{AtomicBool, Ordering};

/// The elementary streams as the watch tells them apart.
const PICTURES_PID: u16 = 256;
const SOUND_PID: u16 = 257;

/// Follows the stream of the playlist at the target until a signal, `until`, or the end of a recording.
pub(super) fn run(
    watch: &mut Watch<'_>,
    kind: PlaylistKind,
    args: &Args,
    until: Time,
    stop: &AtomicBool,
) -> Result<()> {
    let url: Url = args
        .target
        .parse()
        .map_err(|error: UrlError| failure::usage(error, "write http://HOST:PORT/PATH"))?;
    // What a playlist of http:// lists may be at https://.
    let connector = args.trust.connector();
    let connector = if url.tls() { Some(connector?) } else { connector.ok() };
    let session = Session::open(&url, kind, connector, Clock.now() + ANSWER)
        .map_err(|error| explain(&error, &url, args))?;
    output::print_to_stderr(&format!("watching {}\n", session.about()));
    watch.began = session.is_recording().then(|| Clock.utc());
    let mut has_units = false;
    while !stop.load(Ordering::Relaxed) && Clock.now() < until {
        let piece = session.take(Clock.now() + TURN);
        let now = Clock.now();
        let is_waiting = piece.is_none();
        match piece {
            Some(Piece::Unit(unit)) => {
                has_units = true;
                if watch.began.is_none() {
                    watch.feed.push_unknown(now);
                }
                watch.feed.push_unit(if unit.codec.is_video() { PICTURES_PID } else { SOUND_PID }, &unit);
            }
            Some(Piece::Errors(count)) => watch.feed.push_errors(count),
            Some(Piece::Break) => watch.feed.push_left_out(),
            None => {}
        }
        while let Some(note) = session.take_note() {
            tracing::warn!("{note}");
        }
        if watch.began.is_none() {
            if is_waiting && session.is_gone() {
                watch.feed.push_gone(now);
            } else if session.is_in_time(now) {
                watch.feed.push_unknown(now);
            }
            watch.feed.handle_timeout(now);
        }
        watch.tell()?;
        if is_waiting && session.is_over() {
            break;
        }
    }
    if watch.began.is_some() && !has_units {
        return Err(failure::failed(
            format!("nothing of what {} lists can be watched", args.target),
            "--watch understands segments of MPEG-TS and fragmented MP4",
        ));
    }
    Ok(())
}

/// The error with what to do.
fn explain(error: &SessionError, url: &Url, args: &Args) -> anyhow::Error {
    let advice = match error {
        SessionError::Call(CallFailure::Http(HttpFailure::Untrusted(_))) => {
            trust::advice(args.trust.ca.as_deref())
        }
        SessionError::Call(CallFailure::Http(HttpFailure::Unreachable(_))) => {
            "check host and port, and that the server runs".to_owned()
        }
        SessionError::Call(CallFailure::Status { status: 404, .. }) => {
            "check the name, and that someone publishes it".to_owned()
        }
        SessionError::Encrypted => "watch the stream before it is encrypted".to_owned(),
        _ => "check the URL".to_owned(),
    };
    failure::failed(error, advice).context(format!("cannot watch {url}"))
}
