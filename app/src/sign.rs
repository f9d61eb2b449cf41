//! `glassline sign`: signs an address so that it lets a viewer in for a limited time.

use crate::{config, failure, output};
use anyhow::Result;
use glassline_delivery::http1::plain_path;
use glassline_delivery::policy::{StreamName, Token};
use glassline_delivery::stream::Mux;
use glassline_io::small_file::Accept;
use glassline_media::quantity;
use glassline_transport::srt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Sign a stream's address, so that it lets a viewer in for a limited time
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The address: …/live/NAME.ts for players, …/live/NAME/index.m3u8 or manifest.mpd for HLS and DASH players,
    /// …/watch/NAME for browsers; srt://HOST:PORT?streamid=read:NAME; the NAME of a ladder opens all of its versions; …/event/NAME for the page of an event
    /// and all of its streams that have the same viewer key
    #[arg(value_name = "URL")]
    url: String,
    /// File that holds the viewer key: the [viewer] key of the server's configuration
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// How long the address lets viewers in, from now on (30m, 12h, 3d); viewers that are connected when it expires
    /// stay connected
    #[arg(long = "for", value_name = "TIME", default_value = "12h", value_parser = quantity::parse_duration)]
    time: Duration,
}

const EXAMPLES: &str = "\
Examples:
  glassline sign https://relay.example/watch/stage --key-file viewer.key
  glassline sign https://relay.example/live/stage.ts --key-file viewer.key --for 30m
  glassline sign https://relay.example/event/finals --key-file viewer.key --for 3d
  glassline sign 'srt://relay.example:8890?streamid=read:stage' --key-file viewer.key
  vlc \"$(glassline sign http://relay:8080/live/stage.ts --key-file viewer.key)\"

The server needs the same key: [viewer] key or key_file in its configuration.";

/// Prints the signed address.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.url.starts_with(srt::address::SCHEME) {
        return sign_srt(args);
    }
    let signed = signed_by(&args.url).ok_or_else(|| {
        failure::usage(
            format!("{:?} names no stream", args.url),
            "give an address that ends with /live/NAME.ts (or .flv, .webm, …), /live/NAME/index.m3u8, /live/NAME/manifest.mpd, \
             /watch/NAME or /event/NAME",
        )
    })?;
    let key = config::read_key(&args.key_file, "viewer key", Accept::AnyFile)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let expires_s = (now + args.time).as_secs();
    let token = match signed {
        Signed::Stream(name) => Token::sign(key.expose(), &name, expires_s),
        Signed::Event(name) => Token::sign_event(key.expose(), &name, expires_s),
    };
    let joint = if args.url.contains('?') { '&' } else { '?' };
    output::print(&format!("{}{joint}{}\n", args.url, token.query()))
}

/// Prints the signed address of SRT: the token goes into the stream id, behind the stream's name.
fn sign_srt(args: &Args) -> Result<()> {
    let wrong = |what: String| failure::usage(what, "write srt://HOST:PORT?streamid=read:NAME");
    let address = srt::Address::parse(&args.url).map_err(wrong)?;
    let id = srt::StreamId::parse(address.stream_id.as_bytes()).map_err(wrong)?;
    let name = StreamName::parse(&id.name);
    let name = name.ok_or_else(|| wrong(format!("{:?} is no stream's name", id.name)))?;
    if id.mode == srt::StreamMode::Publish {
        return Err(wrong("a token lets viewers in; publishers show the publish key".to_owned()));
    }
    if id.key.is_some() || address.stream_id.contains('?') {
        return Err(wrong("the stream id has a key or a question mark already".to_owned()));
    }
    let key = config::read_key(&args.key_file, "viewer key", Accept::AnyFile)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let token = Token::sign(key.expose(), &name, (now + args.time).as_secs()).query();
    let token = token.trim_start_matches("expires=").replacen("&token=", ".", 1);
    let with_token = match address.stream_id.starts_with("#!") {
        true => format!("{},s={token}", address.stream_id),
        false => format!("{}:{token}", address.stream_id),
    };
    // As it stands in the address, where a number sign is written by its code.
    let escaped = |text: &str| text.replace('#', "%23");
    let (former, signed) = (escaped(&address.stream_id), escaped(&with_token));
    let url = args.url.replacen(&format!("streamid={former}"), &format!("streamid={signed}"), 1);
    if url == args.url {
        return Err(wrong("the stream id is written with codes that are not needed".to_owned()));
    }
    output::print(&format!("{url}\n"))
}

/// What an address is signed for.
#[derive(Debug, PartialEq)]
enum Signed {
    Stream(StreamName),
    Event(StreamName),
}

/// What an address names.
fn signed_by(url: &str) -> Option<Signed> {
    let path = plain_path(url.split_once('?').map_or(url, |(path, _)| path));
    let (before, last) = path.rsplit_once('/')?;
    // A stream may be called "event".
    let event = || StreamName::parse(last).filter(|_| before.ends_with("/event")).map(Signed::Event);
    stream_of(before, last).map(Signed::Stream).or_else(event)
}

/// The stream that is named by an address with a path that ends with `before`, a slash and `last`.
fn stream_of(before: &str, last: &str) -> Option<StreamName> {
    if before.ends_with("/live") {
        let (name, extension) = last.rsplit_once('.')?;
        return Mux::of_extension(extension).and_then(|_| StreamName::parse(name));
    }
    if before.ends_with("/watch") {
        return StreamName::parse(last);
    }
    let (before, name) = before.rsplit_once('/')?;
    let is_playlist = last.ends_with(".m3u8") || last.ends_with(".mpd");
    (is_playlist && before.ends_with("/live")).then(|| StreamName::parse(name))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_stream() {
        let name = |url| match signed_by(url) {
            Some(Signed::Stream(name)) => Some(name.to_string()),
            Some(Signed::Event(name)) => Some(format!("the event {name}")),
            None => None,
        };
        assert_eq!(name("http://h:8080/event/finals").as_deref(), Some("the event finals"));
        assert_eq!(name("https://h/tv/event/finals?x=1").as_deref(), Some("the event finals"));
        assert_eq!(name("https://h/event/a%20b"), None);
        assert_eq!(name("http://h/live/event/index.m3u8").as_deref(), Some("event"));
        assert_eq!(name("http://h/event/index.m3u8").as_deref(), Some("the event index.m3u8"));
        assert_eq!(name("http://h:8080/live/stage.ts").as_deref(), Some("stage"));
        assert_eq!(name("https://h/behind/proxy/watch/stage?engine=mse").as_deref(), Some("stage"));
        assert_eq!(name("http://h:8080/live/hall/index.m3u8").as_deref(), Some("hall"));
        assert_eq!(name("http://h:8080/live/hall/manifest.mpd?x=1").as_deref(), Some("hall"));
        assert_eq!(name("http://h/live/radio.ogg").as_deref(), Some("radio"));
        assert_eq!(name("http://h/live/a.b.flv").as_deref(), Some("a.b"));
        assert_eq!(name("http://h/live/st%61ge%2D1.ts").as_deref(), Some("stage-1"));
        for bad in [
            "http://h/live/hall/video/1.m4s",
            "http://h/other/hall/index.m3u8",
            "",
            "stage",
            "http://h/stage.ts",
            "http://h/live/stage",
            "http://h/live/stage.exe",
            "http://h/watch/",
            "http://h/watch/a%20b",
        ] {
            assert_eq!(name(bad), None, "{bad}");
        }
    }
}
