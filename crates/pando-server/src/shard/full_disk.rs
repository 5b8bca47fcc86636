//! What a shard does on a full disk: which inputs it handles, and which must come again.

use babu::Priority;
use pando_core::contract::{Effects, Input, Out};
use pando_types::peer::{Floor, Peer};

use crate::calls::wants::{Wants, no_room_for};
use crate::shard::cell::Cell;
use crate::shard::state::State;
use crate::shard::timer::Timer;
use crate::store::error::Room;
use crate::store::group::weigh;

/// Time after which a shard that found no room for its own work tries again, nanoseconds.
pub(crate) const RETRY_FULL_NANOS: u64 = 200_000_000;

/// For this long after the disk was full, an input that may use the reserve takes it for full,
/// nanoseconds.
const ASK_FULL_NANOS: u64 = 100_000_000;

/// Result of the reservation before an input is handled.
#[derive(Clone, Copy)]
pub(crate) struct Reserved {
    /// There is no room for what takes space.
    pub(crate) is_full: bool,
    /// There is no room for any change, not even in the reserve.
    pub(crate) is_spent: bool,
    /// The reservation.
    pub(crate) of: Wants,
}

impl State {
    /// Reserves log space. Answers whether the disk is full for what takes space. `Err`: there is
    /// no room for this input either, or the store has failed.
    pub(crate) fn room(&mut self, wants: Wants, timer: &Timer) -> Result<bool, Room> {
        let (bytes, may_use_reserve) = match wants {
            Wants::Nothing => return Ok(false),
            Wants::Space(bytes) => (bytes, false),
            Wants::Reserve(bytes) => (bytes, true),
        };
        // A full disk may take long to say so. So it is not asked again for each removal.
        let is_over = |at| timer.clock.mono() > at + ASK_FULL_NANOS;
        if !may_use_reserve || self.full_at.is_none_or(is_over) {
            match self.store.reserve(bytes, Priority::Normal) {
                Room::Enough => {
                    self.full_at = None;
                    return Ok(false);
                }
                Room::Full => self.full_at = Some(timer.clock.mono()),
                failed @ Room::Failed(_) => return Err(failed),
            }
        }
        match may_use_reserve.then(|| self.store.reserve(bytes, Priority::Reserve)) {
            Some(Room::Enough) => Ok(true),
            Some(failed @ Room::Failed(_)) => Err(failed),
            Some(Room::Full) | None => Err(Room::Full),
        }
    }

    /// Whether the effects of an input fit. They may need more than was reserved: only the machine
    /// finds how much there is to remove or to move.
    pub(crate) fn has_room_for(&mut self, effects: &Effects, room: Reserved) -> Room {
        if effects.writes.is_empty() {
            return Room::Enough;
        }
        let bytes = weigh(&effects.writes);
        self.brake.spend(bytes);
        match room.of {
            Wants::Space(reserved) | Wants::Reserve(reserved) if bytes <= reserved => Room::Enough,
            Wants::Space(_) => self.store.reserve(bytes, Priority::Normal),
            Wants::Reserve(_) | Wants::Nothing => self.store.reserve(bytes, Priority::Reserve),
        }
    }

    pub(crate) fn note_full(&mut self, cell: &Cell) {
        cell.counters.no_space.increment();
        // A checkpoint gives log space back: most records in the log are out of date by then.
        self.wants_checkpoint = true;
    }

    /// The disk is full, and the reserve is used up. A peer sends its message again. A tick is
    /// repeated.
    pub(crate) fn no_room(&mut self, input: &Input, cell: &Cell, timer: &Timer) {
        self.note_full(cell);
        match input {
            // Only the machine knows whether the request has run before, and it was asked.
            Input::Client(..) => {}
            Input::Peer(peer) => {
                if let Some(message) = no_room_for(peer) {
                    let answer = Peer {
                        from: self.shard,
                        clock: 0,
                        floor: Floor::default(),
                        message,
                        ..**peer
                    };
                    self.leave.push(Out::Peer(peer.from, Box::new(answer)));
                }
            }
            Input::Tick | Input::Ready => {
                cell.set_tick_later();
                self.wake_soon(timer.clock.mono() + RETRY_FULL_NANOS);
            }
        }
    }
}
