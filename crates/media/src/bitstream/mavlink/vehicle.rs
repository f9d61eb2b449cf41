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
use std::time::Duration;

/// Another vehicle takes the place of one that says nothing for so long.
const SILENCE: Duration = Duration::from_secs(5);

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
    /// Of a ground station, or of a part before its autopilot was heard.
    Ignored,
}

/// The vehicle that is followed.
#[derive(Clone, Debug, Default)]
pub(super) struct Vehicle {
    followed: Option<(Sender, Time)>,
    /// Bits: the systems that call their component 1 a ground station.
    ground_stations: [u64; 4],
}

impl Vehicle {
    pub(super) fn followed(&self) -> Option<Sender> {
        self.followed.map(|(sender, _)| sender)
    }

    /// Judges a message that was read at `at`.
    pub(super) fn judge(&mut self, sender: Sender, message: &Message, at: Time) -> Origin {
        if let Message::Heartbeat { kind: GROUND_STATION, .. } = message {
            if sender.component == AUTOPILOT {
                self.note_ground_station(sender.system);
            }
            return Origin::Ignored;
        }
        if !self.is_autopilot(sender, message) {
            return match self.followed() {
                Some(followed) if followed.system == sender.system => Origin::Part,
                _ => Origin::Ignored,
            };
        }
        match &mut self.followed {
            Some((followed, heard_at)) if *followed == sender => {
                *heard_at = at;
                Origin::Autopilot { is_new: false }
            }
            // Component 1 is the autopilot, whatever another part of the same vehicle has called itself before.
            Some((followed, heard_at))
                // It may be of later, where the clock was set back since.
                if at.since(*heard_at).max(heard_at.since(at)) < SILENCE
                    && !(followed.system == sender.system && sender.component == AUTOPILOT) =>
            {
                if followed.system == sender.system { Origin::Part } else { Origin::OtherVehicle }
            }
            followed => {
                *followed = Some((sender, at));
                Origin::Autopilot { is_new: true }
            }
        }
    }

    /// Whether the message is of an autopilot: of component 1, or of one that was taken for it, or of a component that says in its
    /// heartbeat that it is one, as flight controllers of racing drones do (component 200).
    fn is_autopilot(&self, sender: Sender, message: &Message) -> bool {
        if self.is_ground_station(sender.system) {
            return false;
        }
        let says_so = match message {
            Message::Heartbeat { autopilot, .. } => {
                *autopilot != NO_AUTOPILOT && !is_peripheral(sender.component)
            }
            _ => false,
        };
        sender.component == AUTOPILOT || self.followed() == Some(sender) || says_so
    }

    fn note_ground_station(&mut self, system: u8) {
        if let Some(word) = self.ground_stations.get_mut(usize::from(system >> 6)) {
            *word |= 1 << (system & 63);
        }
    }

    fn is_ground_station(&self, system: u8) -> bool {
        self.ground_stations.get(usize::from(system >> 6)).is_some_and(|word| word >> (system & 63) & 1 != 0)
    }
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
        assert_eq!(vehicle.judge(from(255, 190), &GROUND, at), Origin::Ignored);
        // One that gives itself the autopilot's component.
        assert_eq!(vehicle.judge(from(254, 1), &GROUND, at), Origin::Ignored);
        assert_eq!(vehicle.judge(from(254, 1), &ATTITUDE, at), Origin::Ignored);
        // A gimbal that repeats what its vehicle is, and its attitude.
        assert_eq!(vehicle.judge(from(1, 154), &HEARTBEAT, at), Origin::Ignored);
        assert_eq!(vehicle.judge(from(1, 154), &ATTITUDE, at), Origin::Ignored);
        assert_eq!(vehicle.judge(from(1, 1), &HEARTBEAT, at), Origin::Autopilot { is_new: true });
        assert_eq!(vehicle.judge(from(1, 154), &ATTITUDE, at), Origin::Part);
        // A ground station with the vehicle's own number.
        assert_eq!(vehicle.judge(from(1, 190), &GROUND, at), Origin::Ignored);
        assert_eq!(vehicle.judge(from(1, 1), &ATTITUDE, at), Origin::Autopilot { is_new: false });
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
