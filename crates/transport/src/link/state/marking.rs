//! Whether a path leaves IP's marks of congestion alone: a sender that sets them has to find out (RFC 9000 §13.4.2).
//!
//! The peer counts what came with each mark. Where fewer came than were acknowledged, a router clears them; where all
//! came as congested from the beginning, a router sets them without a queue. Either way they mean nothing.

use crate::link::Ecn;

/// Packets that are acknowledged before it is judged.
const ENOUGH: u64 = 16;

/// What our datagrams on a path are marked with, and what becomes of that.
#[derive(Debug)]
pub(crate) struct Marking {
    wanted: Ecn,
    mark: Ecn,
    /// Ours that were acknowledged on this path, all of them marked.
    acked: u64,
    /// What the peer has told: packets with ECT(1), ECT(0), CE.
    told: [u64; 3],
    /// The same, when the path began.
    before: [u64; 3],
}

impl Marking {
    pub(crate) fn new(wanted: Ecn) -> Marking {
        Marking { wanted, mark: wanted, acked: 0, told: [0; 3], before: [0; 3] }
    }

    /// What datagrams have to be marked with now.
    pub(crate) fn mark(&self) -> Ecn {
        self.mark
    }

    /// How many of ours came with the mark of congestion, as the peer has told.
    pub(crate) fn congested(&self) -> u64 {
        self.told[2]
    }

    /// The peer has told its counts: how many more came with the mark of congestion. Old news changes nothing.
    pub(crate) fn handle_told(&mut self, ect1: u64, ect0: u64, ce: u64) -> u64 {
        let new = ce.saturating_sub(self.told[2]);
        self.told = [ect1.max(self.told[0]), ect0.max(self.told[1]), ce.max(self.told[2])];
        new
    }

    /// The peer has acknowledged so many packets more. What it has told of them may come behind that.
    pub(crate) fn handle_acked(&mut self, packets: u64) {
        if self.mark == Ecn::NotCapable {
            return;
        }
        if self.acked >= ENOUGH && !self.is_left_alone() {
            self.mark = Ecn::NotCapable;
            return;
        }
        self.acked = self.acked.saturating_add(packets);
    }

    /// Nothing that was sent is acknowledged: some paths swallow what bears a mark.
    pub(crate) fn handle_silence(&mut self) {
        self.mark = Ecn::NotCapable;
    }

    /// The path is another one.
    pub(crate) fn handle_new_path(&mut self) {
        (self.mark, self.acked, self.before) = (self.wanted, 0, self.told);
    }

    fn is_left_alone(&self) -> bool {
        let [ect1, ect0, ce] = [0, 1, 2].map(|at| self.told[at].saturating_sub(self.before[at]));
        let (own, foreign) = if self.mark == Ecn::Ect1 { (ect1, ect0) } else { (ect0, ect1) };
        // Acknowledgements of packets before the path's, and losses of what tells of them, leave room for half.
        let arrive = own.saturating_add(ce).saturating_mul(2) >= self.acked;
        arrive && foreign <= own.saturating_add(ce) && own > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many packets are sent, and acknowledged four at a time; of each four the peer tells these counts.
    fn after(packets: u64, wanted: Ecn, told: [u64; 3]) -> Ecn {
        let mut marking = Marking::new(wanted);
        for fours in 1..=packets / 4 {
            marking.handle_acked(4);
            let [ect1, ect0, ce] = told.map(|count| count * fours);
            marking.handle_told(ect1, ect0, ce);
        }
        marking.mark()
    }

    #[test]
    fn marks_are_kept_where_they_arrive_and_given_up_where_they_do_not() {
        assert_eq!(after(1000, Ecn::Ect0, [0, 4, 0]), Ecn::Ect0);
        assert_eq!(after(1000, Ecn::Ect1, [4, 0, 0]), Ecn::Ect1);
        assert_eq!(after(1000, Ecn::Ect0, [0, 1, 3]), Ecn::Ect0, "a long queue");
        assert_eq!(after(16, Ecn::Ect0, [0, 0, 0]), Ecn::Ect0, "not judged yet");
        assert_eq!(after(24, Ecn::Ect0, [0, 0, 0]), Ecn::NotCapable, "wiped out");
        assert_eq!(after(24, Ecn::Ect0, [4, 0, 0]), Ecn::NotCapable, "changed");
        assert_eq!(after(24, Ecn::Ect0, [0, 0, 4]), Ecn::NotCapable, "always congested");
        assert_eq!(after(1000, Ecn::NotCapable, [0, 0, 0]), Ecn::NotCapable);
    }

    #[test]
    fn each_path_is_judged_anew_and_congestion_is_counted_once() {
        let mut marking = Marking::new(Ecn::Ect0);
        assert_eq!(marking.handle_told(0, 90, 10), 10);
        assert_eq!(marking.handle_told(0, 80, 9), 0, "overtaken");
        assert_eq!(marking.handle_told(0, 90, 12), 2);
        marking.handle_silence();
        assert_eq!(marking.mark(), Ecn::NotCapable);
        marking.handle_new_path();
        assert_eq!(marking.mark(), Ecn::Ect0);
        // What came on the path before does not speak for this one.
        (0..6).for_each(|_| marking.handle_acked(4));
        assert_eq!((marking.mark(), marking.congested()), (Ecn::NotCapable, 12));
    }
}
