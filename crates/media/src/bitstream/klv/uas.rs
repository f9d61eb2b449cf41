//! The local set of drones (MISB ST 0601, "0601" below): when and where a sensor looked at what, as far as time, mission, attitude
//! and position go.
//!
//! Angles and heights are integers over the whole range of their type, mapped linearly. Of signed ones the least value stands
//! for "none" or "out of range".
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod write;

use super::{KEY_BYTES, Packet, items};
use crate::printable;
use serde::Serialize;

/// The set's universal key (0601 §6.2).
pub const KEY: [u8; KEY_BYTES] =
    [0x06, 0x0e, 0x2b, 0x34, 0x02, 0x0b, 0x01, 0x01, 0x0e, 0x01, 0x03, 0x01, 0x01, 0x00, 0x00, 0x00];
/// The version of the standard that [`Set::write`] follows (tag 65).
pub const VERSION: u8 = 19;

/// Texts are cut behind so many bytes, which is what the standard allows (0601 §8.3).
const TEXT_MAX_BYTES: usize = 127;
/// Bytes of the item of the checksum: tag, length, value.
const CHECKSUM_BYTES: usize = 4;

mod tag {
    pub(super) const CHECKSUM: u8 = 1;
    pub(super) const TIME: u8 = 2;
    pub(super) const MISSION: u8 = 3;
    pub(super) const TAIL: u8 = 4;
    pub(super) const HEADING: u8 = 5;
    pub(super) const PITCH: u8 = 6;
    pub(super) const ROLL: u8 = 7;
    pub(super) const PLATFORM: u8 = 10;
    pub(super) const LATITUDE: u8 = 13;
    pub(super) const LONGITUDE: u8 = 14;
    pub(super) const ALTITUDE: u8 = 15;
    pub(super) const HORIZONTAL_VIEW: u8 = 16;
    pub(super) const VERTICAL_VIEW: u8 = 17;
    pub(super) const RELATIVE_AZIMUTH: u8 = 18;
    pub(super) const RELATIVE_ELEVATION: u8 = 19;
    pub(super) const RELATIVE_ROLL: u8 = 20;
    pub(super) const CENTRE_LATITUDE: u8 = 23;
    pub(super) const CENTRE_LONGITUDE: u8 = 24;
    pub(super) const VERSION: u8 = 65;
    pub(super) const ELLIPSOID_HEIGHT: u8 = 75;
    pub(super) const PITCH_FULL: u8 = 90;
    pub(super) const ROLL_FULL: u8 = 91;
}

/// What a set says, as far as it is looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Set {
    /// When it holds: microseconds since 1970 without leap seconds (MISB ST 0603).
    pub time_micros: Option<u64>,
    /// The mission's name.
    pub mission: Option<String>,
    /// The tail number.
    pub tail_number: Option<String>,
    /// What the platform is.
    pub platform: Option<String>,
    /// Where the platform's nose points, degrees clockwise from north.
    pub heading_deg: Option<f64>,
    /// How far its nose is up, degrees.
    pub pitch_deg: Option<f64>,
    /// How far its right wing is down, degrees.
    pub roll_deg: Option<f64>,
    /// Where the sensor is, degrees north (WGS 84).
    pub latitude_deg: Option<f64>,
    /// The same, degrees east.
    pub longitude_deg: Option<f64>,
    /// The same, metres above the mean level of the sea.
    pub altitude_m: Option<f64>,
    /// The same, metres above the ellipsoid of WGS 84.
    pub ellipsoid_height_m: Option<f64>,
    /// What the picture spans from left to right, degrees.
    pub horizontal_view_deg: Option<f64>,
    /// What it spans from top to bottom, degrees.
    pub vertical_view_deg: Option<f64>,
    /// Where the sensor points, degrees clockwise from the platform's nose, seen from above the platform.
    pub relative_azimuth_deg: Option<f64>,
    /// The same, degrees above the plane of the platform.
    pub relative_elevation_deg: Option<f64>,
    /// How far the sensor is turned about the direction in which it points, degrees.
    pub relative_roll_deg: Option<f64>,
    /// Where the middle of the picture is, degrees north.
    pub centre_latitude_deg: Option<f64>,
    /// The same, degrees east.
    pub centre_longitude_deg: Option<f64>,
    /// The version of the standard.
    pub version: Option<u8>,
    /// Whether the checksum is right; `None` where there is none.
    pub checksum_right: Option<bool>,
}

impl Set {
    /// Reads the set in a packet; `None` where the packet is of another kind. Items of a wrong length, and values that stand for
    /// "none", are left out.
    pub fn parse(packet: &Packet<'_>) -> Option<Set> {
        // Byte 6 is the version of the registry (MISB ST 0107 §6.3): older writers have 1.
        let same = |at: usize| at == 5 || at == 7 || packet.key.get(at) == KEY.get(at);
        if !(0..KEY_BYTES).all(same) {
            return None;
        }
        let mut set = Set::default();
        for (tag, value) in items(packet.value) {
            let Ok(tag) = u8::try_from(tag) else { continue };
            set.take(tag, value);
        }
        set.checksum_right = checksum_in(packet.bytes).map(|(stated, right)| stated == right);
        Some(set)
    }

    fn take(&mut self, tag: u8, value: &[u8]) {
        match tag {
            tag::TIME => self.time_micros = value.try_into().ok().map(u64::from_be_bytes),
            tag::MISSION => self.mission = text(value),
            tag::TAIL => self.tail_number = text(value),
            tag::PLATFORM => self.platform = text(value),
            tag::HEADING => self.heading_deg = unsigned(value, 0.0, 360.0),
            tag::PITCH => self.pitch_deg = self.pitch_deg.or(signed16(value, 20.0)),
            tag::ROLL => self.roll_deg = self.roll_deg.or(signed16(value, 50.0)),
            tag::PITCH_FULL => self.pitch_deg = signed32(value, 90.0).or(self.pitch_deg),
            tag::ROLL_FULL => self.roll_deg = signed32(value, 90.0).or(self.roll_deg),
            tag::LATITUDE => self.latitude_deg = signed32(value, 90.0),
            tag::LONGITUDE => self.longitude_deg = signed32(value, 180.0),
            tag::ALTITUDE => self.altitude_m = unsigned(value, -900.0, 19_000.0),
            tag::HORIZONTAL_VIEW => self.horizontal_view_deg = unsigned(value, 0.0, 180.0),
            tag::VERTICAL_VIEW => self.vertical_view_deg = unsigned(value, 0.0, 180.0),
            tag::RELATIVE_AZIMUTH => self.relative_azimuth_deg = unsigned32(value, 360.0),
            tag::RELATIVE_ELEVATION => self.relative_elevation_deg = signed32(value, 180.0),
            tag::RELATIVE_ROLL => self.relative_roll_deg = unsigned32(value, 360.0),
            tag::ELLIPSOID_HEIGHT => self.ellipsoid_height_m = unsigned(value, -900.0, 19_000.0),
            tag::CENTRE_LATITUDE => self.centre_latitude_deg = signed32(value, 90.0),
            tag::CENTRE_LONGITUDE => self.centre_longitude_deg = signed32(value, 180.0),
            tag::VERSION => self.version = <[u8; 1]>::try_from(value).ok().map(|[version]| version),
            _ => {}
        }
    }
}

/// The sum of all pairs of bytes, modulo 2¹⁶ (0601 §8.1).
fn checksum(bytes: &[u8]) -> u16 {
    bytes.chunks(2).fold(0u16, |sum, pair| {
        let pair = [pair.first().copied().unwrap_or(0), pair.get(1).copied().unwrap_or(0)];
        sum.wrapping_add(u16::from_be_bytes(pair))
    })
}

/// The checksum that a packet states at its end, and the right one.
fn checksum_in(packet: &[u8]) -> Option<(u16, u16)> {
    let (covered, stated) = packet.split_last_chunk::<2>()?;
    let at = packet.len().checked_sub(CHECKSUM_BYTES)?;
    let is_there = covered.get(at..)? == [tag::CHECKSUM, 2];
    is_there.then(|| (u16::from_be_bytes(*stated), checksum(covered)))
}

fn text(value: &[u8]) -> Option<String> {
    let value = value.get(..value.len().min(TEXT_MAX_BYTES))?;
    let text = String::from_utf8_lossy(value);
    let text = text.trim_end_matches('\0');
    (!text.is_empty()).then(|| printable::line(text).into_owned())
}

/// 16 bits over a range.
fn unsigned(value: &[u8], least: f64, most: f64) -> Option<f64> {
    let number = u16::from_be_bytes(value.try_into().ok()?);
    Some(least + f64::from(number) * (most - least) / f64::from(u16::MAX))
}

/// 32 bits over a circle.
fn unsigned32(value: &[u8], most: f64) -> Option<f64> {
    let number = u32::from_be_bytes(value.try_into().ok()?);
    Some(f64::from(number) * most / f64::from(u32::MAX))
}

/// 16 bits over a range around 0.
fn signed16(value: &[u8], limit: f64) -> Option<f64> {
    let number = i16::from_be_bytes(value.try_into().ok()?);
    (number != i16::MIN).then(|| f64::from(number) * limit / f64::from(i16::MAX))
}

/// 32 bits over a range around 0.
fn signed32(value: &[u8], limit: f64) -> Option<f64> {
    let number = i32::from_be_bytes(value.try_into().ok()?);
    (number != i32::MIN).then(|| f64::from(number) * limit / f64::from(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::write::framed;
    use super::*;
    use proptest::prelude::*;

    fn near(found: Option<f64>, expected: f64, tolerance: f64) {
        let found = found.expect("a value");
        assert!((found - expected).abs() <= tolerance, "{found}, expected {expected}");
    }

    /// A packet of items as they stand, with its checksum.
    fn packet(set: &[(u8, &[u8])]) -> Vec<u8> {
        let mut value = Vec::new();
        for (tag, bytes) in set {
            value.extend_from_slice(&[*tag, bytes.len() as u8]);
            value.extend_from_slice(bytes);
        }
        value.extend_from_slice(&[1, 2, 0, 0]);
        framed(&value)
    }

    /// The examples of the standard's own items (0601 §8).
    #[test]
    fn the_examples_of_the_standard_are_read() {
        let bytes = packet(&[
            (2, &0x0004_59f4_a6aa_4aa8_u64.to_be_bytes()),
            (3, b"MISSION01"),
            (4, b"AF-101"),
            (5, &[0x71, 0xc2]),
            (6, &[0xfd, 0x3d]),
            (7, &[0x08, 0xb8]),
            (10, b"MQ1-B"),
            (13, &[0x55, 0x95, 0xb6, 0x6d]),
            (14, &[0x5b, 0x53, 0x60, 0xc4]),
            (15, &[0xc2, 0x21]),
            (16, &[0xcd, 0x9c]),
            (17, &[0xd9, 0x17]),
            (18, &[0x72, 0x4a, 0x0a, 0x20]),
            (19, &[0x87, 0xf8, 0x4b, 0x86]),
            (20, &[0x7d, 0xc5, 0x5e, 0xce]),
            (23, &[0xf1, 0x01, 0xa2, 0x29]),
            (24, &[0x14, 0xbc, 0x08, 0x2b]),
            (65, &[0x0d]),
            (75, &[0xc2, 0x21]),
        ]);
        let set = Set::parse(&Packet::parse(&bytes).unwrap()).unwrap();
        // 2008-10-24T00:13:29.913Z.
        assert_eq!(set.time_micros.map(|micros| micros / 1000), Some(1_224_807_209_913));
        assert_eq!((set.mission.as_deref(), set.tail_number.as_deref()), (Some("MISSION01"), Some("AF-101")));
        assert_eq!((set.platform.as_deref(), set.version), (Some("MQ1-B"), Some(13)));
        near(set.heading_deg, 159.974_364_84, 1e-7);
        near(set.pitch_deg, -0.431_531_724, 1e-8);
        near(set.roll_deg, 3.405_865_658, 1e-8);
        near(set.latitude_deg, 60.176_822_966_978_335, 1e-12);
        near(set.longitude_deg, 128.426_759_042_045_4, 1e-12);
        near(set.altitude_m, 14_190.719_462_882_428, 1e-9);
        near(set.horizontal_view_deg, 144.571_298, 1e-6);
        near(set.vertical_view_deg, 152.643_626, 1e-6);
        near(set.relative_azimuth_deg, 160.719_211_474_396, 4.3e-8);
        near(set.relative_elevation_deg, -168.792_324_833_941, 4.3e-8);
        near(set.relative_roll_deg, 176.865_437_690_572, 4.3e-8);
        near(set.ellipsoid_height_m, 14_190.719_462_882_428, 1e-9);
        near(set.centre_latitude_deg, -10.542_388_633_146_132, 1e-12);
        near(set.centre_longitude_deg, 29.157_890_122_923, 1e-12);
        assert_eq!(set.checksum_right, Some(true));
    }

    #[test]
    fn what_stands_for_none_or_is_wrong_is_left_out() {
        let mut bytes =
            packet(&[(6, &[0x80, 0]), (13, &[0x80, 0, 0, 0]), (5, &[1]), (2, &[1, 2]), (65, &[19])]);
        let set = Set::parse(&Packet::parse(&bytes).unwrap()).unwrap();
        let expected = Set { version: Some(19), checksum_right: Some(true), ..Set::default() };
        assert_eq!(set, expected);
        bytes[20] ^= 1;
        let set = Set::parse(&Packet::parse(&bytes).unwrap()).unwrap();
        assert_eq!(set.checksum_right, Some(false));
        bytes[12] ^= 1;
        assert_eq!(Set::parse(&Packet::parse(&bytes).unwrap()), None, "another set");
    }

    /// Neither tag reaches a roll beyond 90 degrees: one of them says so, which is enough.
    #[test]
    fn an_angle_that_no_tag_reaches_is_out_of_range_in_one() {
        for (roll, full) in [(60.0, true), (-90.0, true), (90.5, false), (179.0, false)] {
            let bytes = Set { roll_deg: Some(roll), ..Set::default() }.write();
            let packet = Packet::parse(&bytes).unwrap();
            let value = |wanted| items(packet.value).find(|(tag, _)| *tag == wanted).map(|(_, value)| value);
            assert_eq!(value(u32::from(tag::ROLL)), Some(&[0x80, 0][..]), "{roll}");
            assert_eq!(value(u32::from(tag::ROLL_FULL)).is_some(), full, "{roll}");
            assert_eq!(Set::parse(&packet).unwrap().roll_deg.is_some(), full, "{roll}");
        }
    }

    #[test]
    fn texts_of_strangers_reach_no_terminal_as_they_are() {
        let bytes = packet(&[(3, b"\x1b[2Jevil\0\0")]);
        let set = Set::parse(&Packet::parse(&bytes).unwrap()).unwrap();
        assert!(!set.mission.as_deref().unwrap().contains('\x1b'), "{set:?}");
    }

    proptest! {
        /// What is written is read as the same, as finely as the standard's integers are.
        #[test]
        fn a_set_survives(
            micros in any::<u64>(), heading in 0.0f64..359.99, pitch in -90.0f64..90.0, roll in -90.0f64..90.0,
            latitude in -90.0f64..=90.0, longitude in -180.0f64..=180.0, altitude in -900.0f64..19_000.0,
            mission in "[a-z]{1,40}", view in proptest::array::uniform2(0.0f64..=180.0),
            pointing in (0.0f64..359.999, -180.0f64..=180.0, 0.0f64..359.999), ellipsoid in -900.0f64..19_000.0,
        ) {
            let set = Set {
                time_micros: Some(micros), mission: Some(mission), heading_deg: Some(heading), pitch_deg: Some(pitch),
                roll_deg: Some(roll), latitude_deg: Some(latitude), longitude_deg: Some(longitude),
                altitude_m: Some(altitude), ellipsoid_height_m: Some(ellipsoid), horizontal_view_deg: Some(view[0]),
                vertical_view_deg: Some(view[1]), relative_azimuth_deg: Some(pointing.0),
                relative_elevation_deg: Some(pointing.1), relative_roll_deg: Some(pointing.2), ..Set::default()
            };
            let bytes = set.write();
            let packet = Packet::parse(&bytes).unwrap();
            prop_assert_eq!(packet.bytes.len(), bytes.len());
            prop_assert_eq!(super::super::items(packet.value).next().unwrap().0, 2);
            let read = Set::parse(&packet).unwrap();
            prop_assert_eq!(read.checksum_right, Some(true));
            prop_assert_eq!((&read.mission, read.time_micros, read.version), (&set.mission, set.time_micros, Some(VERSION)));
            near(read.heading_deg, heading, 0.0028);
            near(read.pitch_deg, pitch, 0.00031);
            near(read.roll_deg, roll, 0.00077);
            near(read.latitude_deg, latitude, 2.2e-8);
            near(read.longitude_deg, longitude, 4.3e-8);
            near(read.altitude_m, altitude, 0.16);
            near(read.ellipsoid_height_m, ellipsoid, 0.16);
            near(read.horizontal_view_deg, view[0], 0.0014);
            near(read.vertical_view_deg, view[1], 0.0014);
            near(read.relative_azimuth_deg, pointing.0, 4.3e-8);
            near(read.relative_elevation_deg, pointing.1, 4.3e-8);
            near(read.relative_roll_deg, pointing.2, 4.3e-8);
        }

        #[test]
        fn no_number_is_too_wild_to_be_written(values in proptest::array::uniform6(any::<f64>())) {
            let [heading, pitch, roll, latitude, longitude, altitude] = values.map(Some);
            let set = Set {
                heading_deg: heading, pitch_deg: pitch, roll_deg: roll, latitude_deg: latitude, longitude_deg: longitude,
                altitude_m: altitude, ellipsoid_height_m: altitude, horizontal_view_deg: pitch,
                relative_azimuth_deg: heading, relative_elevation_deg: roll, ..Set::default()
            };
            let bytes = set.write();
            prop_assert!(Set::parse(&Packet::parse(&bytes).unwrap()).unwrap().checksum_right.unwrap());
        }
    }
}
