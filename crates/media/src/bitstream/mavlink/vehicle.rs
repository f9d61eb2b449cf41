//! Which of those that talk on a line is the vehicle.
//!
//! Ground stations, gimbals, cameras and companion computers send heartbeats as autopilots do, and several vehicles may be heard on
//! one line. The first autopilot is kept until it has been silent for [`SILENCE`].
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::{Message, Sender};
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Another vehicle takes the place of one that says nothing for so long.
const SILENCE: Duration = Duration::from_secs(5);
/// A system that has called its component 1 a ground station is taken for one for so long: such a heartbeat may be forged, or wrong.
const GROUND_STATION_FOR: Duration = Duration::from_secs(5);

/// `MAV_COMP_ID_AUTOPILOT1`.
const AUTOPILOT: u8 = 1;
/// `MAV_TYPE_GCS`.
const GROUND_STATION: u8 = 6;
/// `MAV_AUTOPILOT_INVALID`: what is no autopilot says this.
const NO_AUTOPILOT: u8 = 8;

/// What a message is to the vehicle that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Its autopilot's: time, position and attitude are the vehicle's.
    Autopilot {
        /// It is followed from now on.
        is_new: bool,
    },
    /// Of another part of it: a gimbal or a camera.
    Part,
    /// Of another vehicle.
    OtherVehicle,
    /// A ground station's heartbeat, or of component 1 of a system that has called it a ground station.
    GroundStation,
    /// Of a part before its autopilot was heard.
    Ignored,
}

/// The vehicle that is followed.
#[derive(Clone, Debug, Default)]
pub(super) struct Vehicle {
    followed: Option<Followed>,
    /// The systems that call their component 1 a ground station, and when each has said so the last time.
    ground_stations: BTreeMap<u8, Time>,
}

#[derive(Clone, Copy, Debug)]
struct Followed {
    sender: Sender,
    heard_at: Time,
    /// It has said in a heartbeat that it is an autopilot. Another heartbeat by its number that says otherwise is then not its own.
    has_said_so: bool,
}

impl Followed {
    /// A time of later is of before the clock was set back.
    fn is_silent(&self, at: Time) -> bool {
        apart(self.heard_at, at) >= SILENCE
    }
}

impl Vehicle {
    pub(super) fn followed(&self) -> Option<Sender> {
        self.followed.map(|followed| followed.sender)
    }

    /// Judges a message that was read at `at`.
    pub(super) fn judge(&mut self, sender: Sender, message: &Message, at: Time) -> Origin {
        let is_autopilots_heartbeat = match *message {
            Message::Heartbeat { kind: GROUND_STATION, .. } => {
                self.note_ground_station(sender, at);
                return Origin::GroundStation;
            }
            Message::Heartbeat { autopilot, .. } => {
                autopilot != NO_AUTOPILOT && !is_peripheral(sender.component)
            }
            _ => false,
        };
        if sender.component == AUTOPILOT {
            if is_autopilots_heartbeat {
                self.ground_stations.remove(&sender.system);
            }
            if self.is_ground_station(sender.system, at) {
                return Origin::GroundStation;
            }
        }
        // Component 1 is an autopilot, and one that was taken for it, and a component that says in its heartbeat that it is one, as
        // flight controllers of racing drones do (component 200).
        if !(sender.component == AUTOPILOT || self.followed() == Some(sender) || is_autopilots_heartbeat) {
            return match self.followed() {
                Some(followed) if followed.system == sender.system => Origin::Part,
                _ => Origin::Ignored,
            };
        }
        match &mut self.followed {
            Some(followed) if followed.sender == sender => {
                followed.heard_at = at;
                followed.has_said_so |= is_autopilots_heartbeat;
                Origin::Autopilot { is_new: false }
            }
            // Component 1 is the autopilot, whatever another part of the same vehicle has called itself before.
            Some(followed)
                if !followed.is_silent(at)
                    && (followed.sender.system != sender.system || sender.component != AUTOPILOT) =>
            {
                if followed.sender.system == sender.system {
                    Origin::Part
                } else {
                    Origin::OtherVehicle
                }
            }
            followed => {
                *followed = Some(Followed { sender, heard_at: at, has_said_so: is_autopilots_heartbeat });
                Origin::Autopilot { is_new: true }
            }
        }
    }

    /// Takes a ground station's heartbeat. One in the name of the autopilot that is followed changes nothing: it is forged, or of a
    /// ground station that was given the vehicle's number.
    fn note_ground_station(&mut self, sender: Sender, at: Time) {
        match self.followed {
            Some(followed)
                if followed.sender == sender && followed.has_said_so && !followed.is_silent(at) =>
            {
                return;
            }
            Some(followed) if followed.sender == sender => self.followed = None,
            _ => {}
        }
        if sender.component == AUTOPILOT {
            self.ground_stations.insert(sender.system, at);
        }
    }

    fn is_ground_station(&self, system: u8, at: Time) -> bool {
        self.ground_stations.get(&system).is_some_and(|said_at| apart(*said_at, at) < GROUND_STATION_FOR)
    }
}

/// The time between two, whichever is the later.
fn apart(one: Time, other: Time) -> Duration {
    one.since(other).max(other.since(one))
}

/// Cameras and gimbals: some of them repeat type and autopilot of their vehicle in their heartbeats.
fn is_peripheral(component: u8) -> bool {
    matches!(component, 100..=105 | 154 | 171..=175)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARTBEAT: Message = Message::Heartbeat { kind: 2, autopilot: 3 };
    const GROUND: Message = Message::Heartbeat { kind: GROUND_STATION, autopilot: NO_AUTOPILOT };
    const ATTITUDE: Message = Message::Attitude { boot_ms: 0, roll: 0.0, pitch: 0.0, yaw: 0.0 };

    fn from(system: u8, component: u8) -> Sender {
        Sender { system, component }
    }

    #[test]
    fn the_first_autopilot_is_followed_until_it_is_silent() {
        let mut vehicle = Vehicle::default();
        let at = Time::from_millis;
        assert_eq!(vehicle.judge(from(1, 1), &ATTITUDE, at(0)), Origin::Autopilot { is_new: true });
        assert_eq!(vehicle.judge(from(2, 1), &HEARTBEAT, at(10)), Origin::OtherVehicle);
        assert_eq!(vehicle.judge(from(1, 1), &HEARTBEAT, at(4_000)), Origin::Autopilot { is_new: false });
        assert_eq!(vehicle.judge(from(2, 1), &ATTITUDE, at(8_999)), Origin::OtherVehicle);
        assert_eq!(vehicle.judge(from(2, 1), &ATTITUDE, at(9_000)), Origin::Autopilot { is_new: true });
        assert_eq!(vehicle.judge(from(1, 1), &ATTITUDE, at(9_001)), Origin::OtherVehicle);
        assert_eq!(vehicle.followed(), Some(from(2, 1)));
    }

    #[test]
    fn ground_stations_and_parts_are_no_vehicles() {
        let mut vehicle = Vehicle::default();
        let at = Time::ZERO;
        assert_eq!(vehicle.judge(from(255, 190), &GROUND, at), Origin::GroundStation);
        // One that gives itself the autopilot's component.
        assert_eq!(vehicle.judge(from(254, 1), &GROUND, at), Origin::GroundStation);
        assert_eq!(vehicle.judge(from(254, 1), &ATTITUDE, at), Origin::GroundStation);
        // A gimbal that repeats what its vehicle is, and its attitude.
        assert_eq!(vehicle.judge(from(1, 154), &HEARTBEAT, at), Origin::Ignored);
        assert_eq!(vehicle.judge(from(1, 154), &ATTITUDE, at), Origin::Ignored);
        assert_eq!(vehicle.judge(from(1, 1), &HEARTBEAT, at), Origin::Autopilot { is_new: true });
        assert_eq!(vehicle.judge(from(1, 154), &ATTITUDE, at), Origin::Part);
        // A ground station with the vehicle's own number.
        assert_eq!(vehicle.judge(from(1, 190), &GROUND, at), Origin::GroundStation);
        assert_eq!(vehicle.judge(from(1, 1), &ATTITUDE, at), Origin::Autopilot { is_new: false });
    }

    /// Anyone that reaches the line can send a heartbeat in the vehicle's name.
    #[test]
    fn a_ground_stations_heartbeat_does_not_silence_the_vehicle_that_is_followed() {
        let mut vehicle = Vehicle::default();
        let at = Time::from_millis;
        assert_eq!(vehicle.judge(from(1, 1), &HEARTBEAT, at(0)), Origin::Autopilot { is_new: true });
        for now in 0..60 {
            assert_eq!(vehicle.judge(from(1, 1), &GROUND, at(now * 100)), Origin::GroundStation);
            let judged = vehicle.judge(from(1, 1), &ATTITUDE, at(now * 100 + 1));
            assert_eq!(judged, Origin::Autopilot { is_new: false });
        }
        // It keeps nothing alive that is silent.
        assert_eq!(vehicle.judge(from(1, 1), &GROUND, at(10_000)), Origin::GroundStation);
        assert_eq!(vehicle.judge(from(2, 1), &ATTITUDE, at(11_000)), Origin::Autopilot { is_new: true });
    }

    #[test]
    fn a_system_is_a_ground_station_until_it_says_otherwise_or_has_not_said_so_for_5_seconds() {
        let mut vehicle = Vehicle::default();
        let at = Time::from_millis;
        assert_eq!(vehicle.judge(from(1, 1), &GROUND, at(0)), Origin::GroundStation);
        assert_eq!(vehicle.judge(from(1, 1), &ATTITUDE, at(4_999)), Origin::GroundStation);
        assert_eq!(vehicle.judge(from(1, 1), &ATTITUDE, at(5_000)), Origin::Autopilot { is_new: true });
        // One that was followed before its heartbeat came was taken for a vehicle by mistake.
        assert_eq!(vehicle.judge(from(1, 1), &GROUND, at(5_100)), Origin::GroundStation);
        assert_eq!(vehicle.judge(from(1, 1), &ATTITUDE, at(5_200)), Origin::GroundStation);
        assert_eq!(vehicle.followed(), None);
        assert_eq!(vehicle.judge(from(1, 1), &HEARTBEAT, at(5_300)), Origin::Autopilot { is_new: true });
        assert_eq!(vehicle.judge(from(1, 1), &ATTITUDE, at(5_400)), Origin::Autopilot { is_new: false });
    }

    #[test]
    fn a_flight_controller_with_a_number_of_its_own_is_a_vehicle_until_component_1_is_heard() {
        let mut vehicle = Vehicle::default();
        let at = Time::ZERO;
        assert_eq!(vehicle.judge(from(0, 200), &ATTITUDE, at), Origin::Ignored);
        assert_eq!(vehicle.judge(from(0, 200), &HEARTBEAT, at), Origin::Autopilot { is_new: true });
        assert_eq!(vehicle.judge(from(0, 200), &ATTITUDE, at), Origin::Autopilot { is_new: false });
        assert_eq!(vehicle.judge(from(0, 1), &ATTITUDE, at), Origin::Autopilot { is_new: true });
        assert_eq!(vehicle.judge(from(0, 200), &ATTITUDE, at), Origin::Part);
    }
}
