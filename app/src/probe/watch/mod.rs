//! `--watch`: alarms on a stream, one line each, until a signal or the end.
//!
//! A server's stream that ends is asked for again, so that the watch tells of its return. The alarms of a file are those that the stream
//! would have given live: its own time counts. [`segments`] follows playlists and manifests.

mod segments;

use super::source::{self, Reader, Source};
use super::{Args, READ_BYTES, shown};
use crate::{failure, output, stop};
use anyhow::{Context, Result};
use glassline_delivery::watch::{Alarm, AlarmEvent, Raised, Rule, Rules, Saved, State};
use glassline_inspect::transport_stream::Kind;
use glassline_io::clock::Clock;
use glassline_media::{Time, Utc, quantity};
use glassline_watch::Feed;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The longest wait for bytes, so that a signal and a stream that has fallen silent are noticed.
const TURN: Duration = Duration::from_millis(100);
/// How long a server has to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long it is left alone after that.
const RETRY: Duration = Duration::from_millis(500);
/// So many bytes without tables are no transport stream.
const UNKNOWN_BYTES: u64 = 1 << 20;

/// An alarm of the command line: `NAME`, `NAME=LIMIT`, each with `,after=TIME` and `,clear=TIME` behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wish {
    alarm: Alarm,
    limit: Option<f64>,
    after: Option<Duration>,
    clear: Option<Duration>,
}

impl std::str::FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> Result<Wish, String> {
        let mut parts = text.split(',');
        let head = parts.next().unwrap_or_default();
        let (name, limit) = head.split_once('=').map_or((head, None), |(name, limit)| (name, Some(limit)));
        let alarm: Alarm =
            name.parse().map_err(|error: glassline_media::choice::UnknownChoice| error.to_string())?;
        let limit =
            limit.map(|limit| limit.parse().map_err(|_| format!("{limit:?} is no number"))).transpose()?;
        let mut wish = Wish { alarm, limit, after: None, clear: None };
        for part in parts {
            let time = |text: &str| quantity::parse_duration(text).map_err(|error| error.to_string());
            match part.split_once('=') {
                Some(("after", text)) => wish.after = Some(time(text)?),
                Some(("clear", text)) => wish.clear = Some(time(text)?),
                _ => return Err(format!("{part:?} is neither after=TIME nor clear=TIME")),
            }
        }
        let mut rules = Rules::default();
        wish.apply(&mut rules);
        rules.check().map_err(|error| error.to_string())?;
        Ok(wish)
    }
}

impl Wish {
    fn apply(&self, rules: &mut Rules) {
        let Rule { limit, after, clear, .. } = rules[self.alarm];
        rules[self.alarm] = Rule {
            enabled: true,
            limit: self.limit.unwrap_or(limit),
            after: self.after.unwrap_or(after),
            clear: self.clear.unwrap_or(clear),
        };
    }
}

/// What of the command line is about it.
#[derive(Debug, clap::Args)]
#[group(id = "watch_options")]
pub(super) struct Options {
    /// Watch the stream: a line for each alarm that begins or is over, until Ctrl-C, the end of a file, or --duration.
    /// The exit status is 1 if an alarm is there at the end
    #[arg(long, conflicts_with_all = ["flight", "check", "glass", "budget", "ptp"])]
    watch: bool,
    /// Watch for this alarm too, or by another limit or times. By default all but loudness and frozen are watched for;
    /// docs/alarms.md explains each
    #[arg(long, value_name = "NAME[=LIMIT][,after=TIME][,clear=TIME]", requires = "watch")]
    alarm: Vec<Wish>,
    /// Do not watch for this alarm
    #[arg(long, value_name = "NAME", requires = "watch", value_parser = crate::choice::choice::<Alarm>())]
    no_alarm: Vec<Alarm>,
}

impl Options {
    pub(super) fn is_wanted(&self) -> bool {
        self.watch
    }

    fn rules(&self) -> Rules {
        let mut rules = Rules::default();
        self.alarm.iter().for_each(|wish| wish.apply(&mut rules));
        self.no_alarm.iter().for_each(|&alarm| rules[alarm].enabled = false);
        rules
    }
}

/// What a watch tells, and where.
struct Watch<'a> {
    feed: Feed,
    target: &'a str,
    json: bool,
    /// Files and pipes: the stream's own time counts, from here on.
    began: Option<Utc>,
    bytes: u64,
}

/// Watches until a signal, the end, or `--duration`.
pub(super) fn run(args: &Args) -> Result<()> {
    let stop = stop::on_signal()?;
    let until = args.duration.map_or(Time::NEVER, |duration| Clock.now() + duration);
    let source = source::open(&args.target, &args.trust, Clock.now() + ANSWER)?;
    if source.is_capture || source.is_ivf {
        return Err(failure::usage(
            format!("--watch: {} is no transport stream", shown(&args.target)),
            "alarms are those of MPEG-TS",
        ));
    }
    let mut watch = Watch {
        feed: Feed::new(args.watch.rules(), &Saved::default()),
        target: shown(&args.target),
        json: args.json,
        began: (source.kind != Kind::Url).then(|| Clock.utc()),
        bytes: 0,
    };
    if let Some(kind) = source.playlist {
        drop(source);
        segments::run(&mut watch, kind, args, until, &stop)?;
        return watch.verdict();
    }
    watch.read(source, args, until, &stop).with_context(|| format!("cannot read {}", shown(&args.target)))?;
    if watch.began.is_some() && !watch.feed.is_transport_stream() {
        return Err(watch.unknown());
    }
    watch.verdict()
}

impl Watch<'_> {
    fn read(&mut self, mut source: Source, args: &Args, until: Time, stop: &AtomicBool) -> Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        while !stop.load(Ordering::Relaxed) && Clock.now() < until {
            let has_more = self.turn(&mut source.reader, &mut buffer)?;
            if !has_more && self.began.is_some() {
                self.feed.finish();
                return self.tell();
            }
            if !has_more {
                source = match self.again(args, until, stop)? {
                    Some(source) => source,
                    None => return Ok(()),
                };
            }
        }
        Ok(())
    }

    /// Reads once. Returns whether there may be more.
    fn turn(&mut self, reader: &mut Reader, buffer: &mut [u8]) -> Result<bool> {
        let outcome = reader.read(buffer, Clock.now() + TURN);
        let now = Clock.now();
        let has_more = match outcome {
            Ok(0) => false,
            Ok(count) => {
                self.bytes += count as u64;
                self.feed.push(&buffer[..count], now);
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::TimedOut) => true,
            Err(error) if self.began.is_some() => return Err(error.into()),
            Err(error) => {
                tracing::warn!("the stream broke off: {error}");
                false
            }
        };
        if self.bytes > UNKNOWN_BYTES && !self.feed.is_transport_stream() {
            return Err(self.unknown());
        }
        if self.began.is_none() {
            self.feed.handle_timeout(now);
        }
        self.tell()?;
        Ok(has_more)
    }

    /// The server's stream has ended: it is asked for until it is back. `None` where the watch ends before.
    fn again(&mut self, args: &Args, until: Time, stop: &AtomicBool) -> Result<Option<Source>> {
        self.feed.push_gone(Clock.now());
        let mut next = Clock.now();
        while !stop.load(Ordering::Relaxed) && Clock.now() < until {
            self.feed.handle_timeout(Clock.now());
            self.tell()?;
            if Clock.now() < next {
                thread::sleep(TURN.min(next.since(Clock.now())));
                continue;
            }
            if let Ok(source) = source::open(&args.target, &args.trust, Clock.now() + ANSWER) {
                self.feed.push_left_out();
                // Its tables have not come yet.
                self.bytes = 0;
                return Ok(Some(source));
            }
            next = Clock.now() + RETRY;
        }
        Ok(None)
    }

    /// Prints what has begun or is over.
    fn tell(&mut self) -> Result<()> {
        while let Some(failure) = self.feed.take_failure() {
            tracing::warn!("{failure}");
        }
        while let Some(raised) = self.feed.poll() {
            let utc = match self.began {
                Some(began) => Utc::from_nanos(began.as_nanos().saturating_add(raised.at.as_nanos())),
                None => Clock.utc(),
            };
            let event = AlarmEvent::new(self.target, &raised, utc);
            let line = if self.json {
                serde_json::to_string(&event).context("cannot write JSON")?
            } else {
                words(&event, &raised)
            };
            output::print(&format!("{line}\n"))?;
        }
        Ok(())
    }

    fn unknown(&self) -> anyhow::Error {
        failure::failed(
            format!("{} is not an MPEG transport stream", self.target),
            "--watch understands MPEG-TS with H.264, H.265, AV1 or MPEG-2 video",
        )
    }

    /// An error where an alarm is there, so that scripts see it.
    fn verdict(&self) -> Result<()> {
        let active: Vec<&str> =
            self.feed.active().map(|active| glassline_media::Choice::name(active.alarm)).collect();
        match active.len() {
            0 => Ok(()),
            _ => Err(failure::failed(
                format!("at the end there is an alarm: {}", active.join(", ")),
                "see the lines above",
            )),
        }
    }
}

/// The line for people.
fn words(event: &AlarmEvent, raised: &Raised) -> String {
    let state = match event.state {
        State::Begun => "begun",
        State::Over => "over",
    };
    let unit = raised.alarm.unit();
    let value = event.value.map(|value| format!("{value} {unit}, ")).unwrap_or_default();
    format!("{} {} {state}: {value}limit {}", event.at_utc, event.alarm, event.limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_of_the_command_line() {
        let wish = |text: &str| text.parse::<Wish>();
        let plain = Wish { alarm: Alarm::Frozen, limit: None, after: None, clear: None };
        assert_eq!(wish("frozen"), Ok(plain));
        let whole = wish("silence=-50,after=5s,clear=500ms").unwrap();
        let mut rules = Rules::default();
        whole.apply(&mut rules);
        let [after, clear] = [5000, 500].map(Duration::from_millis);
        assert_eq!(rules[Alarm::Silence], Rule { enabled: true, limit: -50.0, after, clear });
        for (text, words) in [
            ("silenc", "one of silence, clipping"),
            ("silence=x", "no number"),
            ("silence=1", "from -110 to 0"),
            ("silence,later=1s", "neither after=TIME"),
            ("silence,after=2h", "from 0s to 60m"),
        ] {
            let error = wish(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
