//! Sets of a drone (MISB ST 0601) made of what its autopilot says.
//!
//! ```text
//! bytes ─► Parser ─► Vehicle: is it of the one that is followed? ─► the newest of each kind, with its time ─► a set, at most ten a second
//! ```
//! What a set does not know, or has not heard of for [`STALE`], it leaves out: in a set there is no value for "perhaps".
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::rotation::{Angles, Rotation};
use super::vehicle::{Origin, Vehicle};
use super::{Counters, Message, Parser, Sender};
use crate::bitstream::klv::uas;
use crate::time::{Time, Utc};
use std::collections::VecDeque;
use std::time::Duration;

/// What is older than this is not known any more.
const STALE: Duration = Duration::from_secs(2);
/// From one set to the next, on average.
const INTERVAL: Duration = Duration::from_millis(100);
/// A set may come so much earlier: messages that come ten times a second come a little early or late.
const EARLY: Duration = Duration::from_millis(25);
/// Where sets are due so much later than a message, the clock was set back.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// 2020-01-01T00:00:00Z. A clock that is before this was never set.
const CLOCKS_SET_MICROS: u64 = 1_577_836_800_000_000;
/// A vehicle's wall clock that is further from that beside it, and from ours, is not believed: that of a receiver of satellites before
/// its first fix, or 1,024 weeks off.
const CLOCKS_APART_MICROS: u64 = 86_400_000_000;
/// What a vehicle's wall clock said is good for messages so much later or earlier.
const CLOCK_GOOD_FOR_MS: u32 = 600_000;
/// A vehicle's time since its start that is so much less than before: it has started anew. Datagrams that overtake each other are
/// nearer.
const RESTARTED_MS: u32 = 1_000;

/// `GPS_FIX_TYPE_2D_FIX`, and the one with height.
const FIX: u8 = 2;
const FIX_WITH_HEIGHT: u8 = 3;
/// `GIMBAL_DEVICE_FLAGS_YAW_LOCK`: without the next two it says that yaw is measured from north.
const YAW_LOCK: u16 = 16;
/// `GIMBAL_DEVICE_FLAGS_YAW_IN_VEHICLE_FRAME`.
const YAW_OF_VEHICLE: u16 = 32;
/// `GIMBAL_DEVICE_FLAGS_YAW_IN_EARTH_FRAME`.
const YAW_OF_NORTH: u16 = 64;

/// What tags 15 and 75 can say, metres.
const HEIGHTS_M: std::ops::RangeInclusive<f64> = -900.0..=19_000.0;

/// When bytes were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// On our clock, that of the pictures.
    pub at: Time,
    /// The same by the wall clock of the machine that read them.
    pub utc: Utc,
    /// That machine is the one beside the vehicle; otherwise it is ours.
    pub beside_vehicle: bool,
    /// The wall clock of this machine when the bytes came here: where the one beside the vehicle is wrong, it may be right.
    pub here: Utc,
}

/// By which clock a set says when it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// The vehicle's, which has it of satellites.
    Vehicle,
    /// That of the machine beside it.
    Sender,
    /// Ours.
    Receiver,
}

/// A set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedSet {
    /// The packet.
    pub bytes: Vec<u8>,
    /// When its newest message was read, on our clock.
    pub at: Time,
    /// What its time is of.
    pub source: TimeSource,
}

/// What became of what came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TelemetryCounters {
    /// Frames and bytes.
    pub frames: Counters,
    /// Messages of other vehicles than the one that is followed.
    pub of_other_vehicles: u64,
    /// Heartbeats of ground stations, and all messages of component 1 of a system that calls that a ground station.
    pub of_ground_stations: u64,
    /// Vehicles that were followed, one after another.
    pub vehicles: u64,
    /// Sets with the time of the vehicle,
    pub by_vehicle: u64,
    /// of the machine beside it,
    pub by_sender: u64,
    /// and of ours.
    pub by_receiver: u64,
}

/// A value, and when it was read.
#[derive(Clone, Copy, Debug)]
struct Heard<T> {
    value: T,
    at: Time,
}

impl<T: Copy> Heard<T> {
    fn new(value: T, read: Read) -> Option<Heard<T>> {
        Some(Heard { value, at: read.at })
    }

    /// The value, if it is not stale at `now`. One that is of later is of before the clock was set back.
    fn at(heard: Option<Heard<T>>, now: Time) -> Option<T> {
        let apart = |heard: &Heard<T>| now.since(heard.at).max(heard.at.since(now));
        heard.filter(|heard| apart(heard) <= STALE).map(|heard| heard.value)
    }
}

#[derive(Clone, Copy, Debug)]
struct Place {
    latitude_deg: f64,
    longitude_deg: f64,
    altitude_m: Option<f64>,
}

/// What a vehicle's wall clock said.
#[derive(Clone, Copy, Debug)]
struct ClockReading {
    unix_micros: u64,
    boot_ms: u32,
}

/// Where a gimbal points, and what its yaw is measured from.
#[derive(Clone, Copy, Debug)]
struct Pointing {
    rotation: Rotation,
    is_of_north: bool,
}

/// What a camera sees.
#[derive(Clone, Copy, Debug)]
struct View {
    horizontal_deg: Option<f64>,
    vertical_deg: Option<f64>,
    centre: Option<(f64, f64)>,
}

/// A gimbal or camera: the part of the vehicle that tells of it, in which message, and which of its own it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Device {
    component: u8,
    message: u16,
    number: u8,
}

/// What is known of the vehicle that is followed.
#[derive(Clone, Debug, Default)]
struct Known {
    attitude: Option<Heard<(Angles, Rotation)>>,
    position: Option<Heard<Place>>,
    heading: Option<Heard<f64>>,
    gps: Option<Heard<Place>>,
    ellipsoid: Option<Heard<f64>>,
    /// Of one gimbal and of one camera: the first that is heard, until it is stale.
    pointing: Option<Heard<(Device, Pointing)>>,
    view: Option<Heard<(Device, View)>>,
    /// Its attitude was told by other axes than its own, as of a vehicle that stands on its tail.
    turned: Option<Heard<()>>,
    /// Its time since its start.
    boot_ms: Option<Heard<u32>>,
    clock: Option<ClockReading>,
    /// Whether its receiver of satellites has had a fix since it has started.
    has_had_fix: bool,
}

/// The newest message of position or attitude that is in no set yet.
#[derive(Clone, Copy, Debug)]
struct News {
    at: Time,
    utc: Utc,
    source: TimeSource,
}

/// Makes sets of what one line says.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    parser: Parser,
    /// When the bytes that the parser holds were read, and how many of each.
    reads: VecDeque<(usize, Read)>,
    vehicle: Vehicle,
    known: Known,
    news: Option<News>,
    /// When the next set may be made.
    due: Time,
    counters: TelemetryCounters,
}

impl Telemetry {
    /// Before the first byte.
    pub fn new() -> Telemetry {
        Telemetry::default()
    }

    /// What was found so far.
    pub fn counters(&self) -> TelemetryCounters {
        TelemetryCounters { frames: self.parser.counters(), ..self.counters }
    }

    /// The vehicle that is followed.
    pub fn vehicle(&self) -> Option<Sender> {
        self.vehicle.followed()
    }

    /// Takes the next bytes of the line, and gives `take` the sets that they make due.
    pub fn push(&mut self, bytes: &[u8], read: Read, take: &mut dyn FnMut(TimedSet)) {
        let mut parser = std::mem::take(&mut self.parser);
        parser.push_with_age(bytes, &mut |sender, message, age| {
            // No line takes longer for a frame: what is older waited for a frame that never came.
            let begun = self.read_of(age).filter(|begun| read.at.since(begun.at) <= STALE);
            let read = begun.unwrap_or(read);
            self.take(sender, &message, read);
            if let Some(set) = self.poll_set(read.at) {
                take(set);
            }
        });
        if !bytes.is_empty() {
            self.reads.push_back((bytes.len(), read));
        }
        let held = parser.held_bytes();
        let mut bytes: usize = self.reads.iter().map(|(bytes, _)| *bytes).fold(0, usize::saturating_add);
        while let Some(&(first, _)) = self.reads.front()
            && bytes.saturating_sub(first) >= held
        {
            bytes = bytes.saturating_sub(first);
            self.reads.pop_front();
        }
        self.parser = parser;
    }

    /// When the byte was read that came so many before those of now; `None` where it is one of those.
    fn read_of(&self, age: usize) -> Option<Read> {
        let mut behind = age;
        for &(bytes, read) in self.reads.iter().rev().take_while(|_| age > 0) {
            if behind <= bytes {
                return Some(read);
            }
            behind = behind.saturating_sub(bytes);
        }
        None
    }

    /// The set that is due at `now`, if there is news for it.
    pub fn poll_set(&mut self, now: Time) -> Option<TimedSet> {
        let news = self.news?;
        if self.due.since(news.at) > CLOCK_STEP {
            self.due = news.at;
        }
        if now + EARLY < self.due {
            return None;
        }
        self.news = None;
        let set = self.known.set(news)?;
        self.due = self.due.max(news.at) + INTERVAL;
        let count = match news.source {
            TimeSource::Vehicle => &mut self.counters.by_vehicle,
            TimeSource::Sender => &mut self.counters.by_sender,
            TimeSource::Receiver => &mut self.counters.by_receiver,
        };
        *count = count.saturating_add(1);
        Some(TimedSet { bytes: set.write(), at: news.at, source: news.source })
    }

    fn take(&mut self, sender: Sender, message: &Message, read: Read) {
        match self.vehicle.judge(sender, message, read.at) {
            Origin::Autopilot { is_new } => {
                if is_new {
                    (self.known, self.news) = (Known::default(), None);
                    self.counters.vehicles = self.counters.vehicles.saturating_add(1);
                }
                self.known.take_part(sender, message, read);
                if let Some(boot_ms) = message.boot_ms() {
                    self.known.take_boot(boot_ms, read);
                }
                if self.known.take_own(message, read) {
                    let (utc, source) = self.known.time(message.boot_ms(), read);
                    self.news = Some(News { at: read.at, utc, source });
                }
            }
            Origin::Part => self.known.take_part(sender, message, read),
            Origin::OtherVehicle => {
                self.counters.of_other_vehicles = self.counters.of_other_vehicles.saturating_add(1);
            }
            Origin::GroundStation => {
                self.counters.of_ground_stations = self.counters.of_ground_stations.saturating_add(1);
            }
            Origin::Ignored => {}
        }
    }
}

impl Message {
    /// The sender's time since its start, of the messages of an autopilot that have it.
    fn boot_ms(&self) -> Option<u32> {
        match *self {
            Message::WallClock { boot_ms, .. }
            | Message::Attitude { boot_ms, .. }
            | Message::AttitudeQuaternion { boot_ms, .. }
            | Message::Position { boot_ms, .. } => Some(boot_ms),
            _ => None,
        }
    }
}

impl Known {
    /// Takes what an autopilot says of its vehicle. Returns whether that is news of position or attitude.
    fn take_own(&mut self, message: &Message, read: Read) -> bool {
        match *message {
            Message::WallClock { unix_micros, boot_ms } => {
                let is_believable = is_believable(unix_micros, read);
                self.clock = is_believable.then_some(ClockReading { unix_micros, boot_ms });
                false
            }
            Message::Gps { fix, latitude_e7, longitude_e7, altitude_mm, ellipsoid_mm } => {
                self.has_had_fix |= fix >= FIX;
                let altitude_m = height(altitude_mm).filter(|_| fix >= FIX_WITH_HEIGHT);
                let place = place(latitude_e7, longitude_e7).filter(|_| fix >= FIX);
                self.gps = place.and_then(|(latitude_deg, longitude_deg)| {
                    Heard::new(Place { latitude_deg, longitude_deg, altitude_m }, read)
                });
                let ellipsoid = height(ellipsoid_mm).filter(|_| fix >= FIX_WITH_HEIGHT && ellipsoid_mm != 0);
                self.ellipsoid = ellipsoid.and_then(|height| Heard::new(height, read));
                // Where the autopilot tells its position, this says nothing newer.
                self.gps.is_some() && Heard::at(self.position, read.at).is_none()
            }
            Message::Attitude { roll, pitch, yaw, .. } => {
                // It is by the vehicle's own axes.
                if Heard::at(self.turned, read.at).is_some() {
                    return false;
                }
                let angles = Angles::of_radians(roll, pitch, yaw);
                self.take_attitude(angles.map(|angles| (angles, angles.rotation())), read)
            }
            Message::AttitudeQuaternion { quaternion, offset, .. } => {
                let offset = Rotation::of_offset(offset).filter(|offset| offset.turns());
                self.turned = offset.and_then(|_| Heard::new((), read));
                let rotation = Rotation::of_quaternion(quaternion)
                    .map(|rotation| offset.map_or(rotation, |offset| rotation.around(offset)));
                self.take_attitude(rotation.map(|rotation| (rotation.angles(), rotation)), read)
            }
            Message::Position { latitude_e7, longitude_e7, altitude_mm, heading_cdeg, .. } => {
                self.position = place(latitude_e7, longitude_e7).and_then(|(latitude_deg, longitude_deg)| {
                    Heard::new(Place { latitude_deg, longitude_deg, altitude_m: height(altitude_mm) }, read)
                });
                // Some senders do not bring negative angles up to a circle, so that more is wrong than the number for "unknown".
                let heading = Some(heading_cdeg).filter(|heading| *heading <= 36_000);
                self.heading = heading.and_then(|heading| Heard::new(f64::from(heading) / 100.0, read));
                true
            }
            Message::Heartbeat { .. }
            | Message::Mount { .. }
            | Message::FieldOfView { .. }
            | Message::Gimbal { .. } => false,
        }
    }

    fn take_attitude(&mut self, attitude: Option<(Angles, Rotation)>, read: Read) -> bool {
        let Some(attitude) = attitude else { return false };
        self.attitude = Heard::new(attitude, read);
        true
    }

    /// Takes what any part of the vehicle may say: of its camera and of its gimbal.
    fn take_part(&mut self, sender: Sender, message: &Message, read: Read) {
        let device = |message, number| Device { component: sender.component, message, number };
        match *message {
            Message::Mount { roll, pitch, yaw, yaw_absolute } => {
                let is_of_north = !yaw.is_finite();
                let yaw = if is_of_north { yaw_absolute.unwrap_or(yaw) } else { yaw };
                let [roll, pitch, yaw] = [roll, pitch, yaw].map(f64::from);
                let angles = Angles { roll, pitch, yaw }.finite();
                let pointing = angles.map(|angles| Pointing { rotation: angles.rotation(), is_of_north });
                take_device(&mut self.pointing, device(265, 0), pointing, read);
            }
            Message::Gimbal { flags, quaternion, device: number } => {
                let is_of_north = match flags & (YAW_OF_VEHICLE | YAW_OF_NORTH) {
                    YAW_OF_NORTH => true,
                    0 => flags & YAW_LOCK != 0,
                    _ => false,
                };
                let rotation = Rotation::of_quaternion(quaternion);
                let pointing = rotation.map(|rotation| Pointing { rotation, is_of_north });
                take_device(&mut self.pointing, device(285, number), pointing, read);
            }
            Message::FieldOfView {
                latitude_e7,
                longitude_e7,
                horizontal_deg,
                vertical_deg,
                device: number,
            } => {
                let angle =
                    |angle: f32| Some(f64::from(angle)).filter(|angle| *angle > 0.0 && *angle <= 180.0);
                let view = View {
                    horizontal_deg: angle(horizontal_deg),
                    vertical_deg: angle(vertical_deg),
                    centre: place(latitude_e7, longitude_e7),
                };
                take_device(&mut self.view, device(271, number), Some(view), read);
            }
            _ => {}
        }
    }

    /// Takes a time since the vehicle's start. One that is less than the newest is of a new start, and the clock has to be told anew.
    fn take_boot(&mut self, boot_ms: u32, read: Read) {
        if let Some(newest) = self.boot_ms {
            let later = boot_ms.wrapping_sub(newest.value).cast_signed();
            let is_restarted =
                if later < 0 { RESTARTED_MS < later.unsigned_abs() } else { is_long(later.unsigned_abs()) };
            if is_restarted {
                (self.clock, self.has_had_fix) = (None, false);
            } else if later < 0 {
                return;
            }
        }
        self.boot_ms = Heard::new(boot_ms, read);
    }

    /// When a message was made, by the best clock that there is. One that does not say its time since the vehicle's start was made
    /// when it was read.
    fn time(&self, boot_ms: Option<u32>, read: Read) -> (Utc, TimeSource) {
        let boot_ms = boot_ms.or_else(|| {
            let newest = self.boot_ms?;
            let later = u32::try_from(read.at.since(newest.at).as_millis()).ok()?;
            Some(newest.value.wrapping_add(later))
        });
        let clock = self.clock.filter(|_| self.has_had_fix);
        let by_vehicle = clock.zip(boot_ms).and_then(|(clock, boot_ms)| clock.at(boot_ms));
        match by_vehicle.filter(|micros| is_believable(*micros, read)) {
            Some(micros) => (Utc::from_micros(micros), TimeSource::Vehicle),
            None if read.beside_vehicle => (read.utc, TimeSource::Sender),
            None => (read.utc, TimeSource::Receiver),
        }
    }

    /// The set of what is known when the news came; `None` where nothing is.
    fn set(&self, news: News) -> Option<uas::Set> {
        let attitude = Heard::at(self.attitude, news.at);
        let place = Heard::at(self.position, news.at).or(Heard::at(self.gps, news.at));
        let heading = attitude.map(|(angles, _)| angles.yaw).or(Heard::at(self.heading, news.at));
        if attitude.is_none() && place.is_none() && heading.is_none() {
            return None;
        }
        let view = Heard::at(self.view, news.at).map(|(_, view)| view);
        let pointing =
            Heard::at(self.pointing, news.at).zip(attitude).map(|((_, pointing), (angles, rotation))| {
                let from = Rotation::of_yaw(if pointing.is_of_north { 0.0 } else { angles.yaw });
                from.around(pointing.rotation).within(rotation).angles()
            });
        Some(uas::Set {
            time_micros: Some(news.utc.as_micros()),
            heading_deg: heading.map(|heading| heading.rem_euclid(360.0)),
            pitch_deg: attitude.map(|(angles, _)| angles.pitch),
            roll_deg: attitude.map(|(angles, _)| angles.roll),
            latitude_deg: place.map(|place| place.latitude_deg),
            longitude_deg: place.map(|place| place.longitude_deg),
            altitude_m: place.and_then(|place| place.altitude_m),
            ellipsoid_height_m: Heard::at(self.ellipsoid, news.at),
            horizontal_view_deg: view.and_then(|view| view.horizontal_deg),
            vertical_view_deg: view.and_then(|view| view.vertical_deg),
            relative_azimuth_deg: pointing.map(|angles| angles.yaw.rem_euclid(360.0)),
            relative_elevation_deg: pointing.map(|angles| angles.pitch),
            relative_roll_deg: pointing.map(|angles| angles.roll.rem_euclid(360.0)),
            centre_latitude_deg: view.and_then(|view| view.centre).map(|(latitude, _)| latitude),
            centre_longitude_deg: view.and_then(|view| view.centre).map(|(_, longitude)| longitude),
            ..uas::Set::default()
        })
    }
}

impl ClockReading {
    /// Microseconds since 1970 at a time since the sender's start, which wraps after 49 days.
    fn at(self, boot_ms: u32) -> Option<u64> {
        let later = boot_ms.wrapping_sub(self.boot_ms).cast_signed();
        if is_long(later.unsigned_abs()) {
            return None;
        }
        let micros = i64::from(later).saturating_mul(1000);
        self.unix_micros.checked_add_signed(micros)
    }
}

fn is_long(apart_ms: u32) -> bool {
    apart_ms > CLOCK_GOOD_FOR_MS
}

/// Takes what a gimbal or a camera says, unless another one is heard already.
fn take_device<T: Copy>(
    known: &mut Option<Heard<(Device, T)>>,
    device: Device,
    value: Option<T>,
    read: Read,
) {
    if Heard::at(*known, read.at).is_none_or(|(heard, _)| heard == device) {
        *known = value.and_then(|value| Heard::new((device, value), read));
    }
}

/// Whether a vehicle's wall clock is set, as far as the clock beside it and ours can tell: one of them is near.
fn is_believable(unix_micros: u64, read: Read) -> bool {
    let others = [read.utc, read.here].map(Utc::as_micros);
    let is_near = |other: &u64| unix_micros.abs_diff(*other) <= CLOCKS_APART_MICROS;
    let none_is_set = others.iter().all(|other| *other < CLOCKS_SET_MICROS);
    unix_micros >= CLOCKS_SET_MICROS && (others.iter().any(is_near) || none_is_set)
}

/// Degrees of latitude and longitude; `None` for what is no place, and for 0, 0, which autopilots send before they know theirs.
fn place(latitude_e7: i32, longitude_e7: i32) -> Option<(f64, f64)> {
    let is_place = latitude_e7.unsigned_abs() <= 900_000_000 && longitude_e7.unsigned_abs() <= 1_800_000_000;
    let is_told = latitude_e7 != 0 || longitude_e7 != 0;
    (is_place && is_told).then(|| (f64::from(latitude_e7) / 1e7, f64::from(longitude_e7) / 1e7))
}

/// Metres that a set can say.
fn height(millimetres: i32) -> Option<f64> {
    Some(f64::from(millimetres) / 1e3).filter(|height| HEIGHTS_M.contains(height))
}

#[cfg(test)]
#[path = "telemetry_tests.rs"]
mod tests;
