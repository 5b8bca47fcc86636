//! The memory's read grants: asked for, recalled, given back (docs/design/read-grants.md). What is
//! known of a directory goes with its read grant.

use pando_types::op::Request;
use pando_types::{DirId, DirRef, SessionId, ShardIndex, TxnId};

use crate::memory::{Memory, read_of};

impl Memory {
    /// Notes a request that travels to this shard. Returns whether a read grant of its directory is
    /// to be asked for.
    pub(crate) fn travels(&self, shard: ShardIndex, request: &Request, now: u64) -> bool {
        let Some(dir) = read_of(request) else { return false };
        let mut state = self.state.lock();
        !state.holds(now) && state.granted.asked_about(dir, shard, now)
    }

    /// Takes the next directory of which a read grant is to be asked for, with the session.
    pub(crate) fn take_wanted(&self, shard: ShardIndex) -> Option<(SessionId, DirRef)> {
        self.state.lock().granted.take_ready(shard)
    }

    /// Notes that a read grant was refused.
    pub(crate) fn read_refused(&self, shard: ShardIndex) {
        self.state.lock().granted.refused(shard);
    }

    /// Enters a read grant that was asked for at `asked`. What was known of its directory rests on
    /// another one.
    pub(crate) fn read_granted(
        &self,
        side: (ShardIndex, SessionId),
        (dir, grant): (DirRef, TxnId),
        (asked, now): (u64, u64),
    ) {
        let mut state = self.state.lock();
        state.facts.drop_dir(dir.id);
        state.granted.granted(side, (dir, grant), (asked, now));
    }

    /// Takes in which read grants a shard wants back, as it has answered a question of `asked` that
    /// told it of `told`.
    pub(crate) fn attended(
        &self,
        shard: ShardIndex,
        (recalled, prolongs): (&[TxnId], bool),
        (told, asked): (&[TxnId], u64),
        now: u64,
    ) {
        let mut state = self.state.lock();
        state.granted.told(shard, told);
        let dirs = state.granted.recalled(shard, recalled);
        state.forget(&dirs);
        // What has lapsed may be over at the shard, which has then forgotten it.
        let lapsed = state.granted.end_lapsed(shard, now);
        state.forget(&lapsed);
        if prolongs {
            state.granted.prolong(shard, asked);
        }
    }

    /// Whether all of these read grants of a shard end here already.
    pub(crate) fn all_end(&self, shard: ShardIndex, grants: &[TxnId]) -> bool {
        let state = self.state.lock();
        grants.iter().all(|grant| state.granted.is_over(shard, *grant))
    }

    /// Takes the directories of which read grants end: with a number for [`Memory::ended`].
    pub(crate) fn take_endings(&self) -> Option<(u64, Vec<DirId>)> {
        self.state.lock().granted.take_endings()
    }

    /// Notes that shards were told of what was taken up to this number.
    pub(crate) fn ended(&self, number: u64) {
        self.state.lock().granted.ended(number);
    }

    /// Gives back what shards were told of, and the kernel remembers nothing by. Returns the shards
    /// to tell.
    pub(crate) fn take_fallen(&self) -> Vec<ShardIndex> {
        self.state.lock().granted.take_fallen()
    }

    /// Whether a read grant of this directory ends.
    pub(crate) fn is_ending(&self, dir: DirId) -> bool {
        self.state.lock().granted.is_ending(dir)
    }

    /// Read grants of which a shard is to be told that they are given back: also those that were
    /// not used for a while. `None`: there is nothing to ask it for news about.
    pub(crate) fn to_tell(&self, shard: ShardIndex, now: u64) -> Option<(SessionId, Vec<TxnId>)> {
        let mut state = self.state.lock();
        let idle = state.granted.idle(shard, now);
        idle.iter().for_each(|dir| state.granted.give_back(*dir));
        state.forget(&idle);
        let session = state.granted.session();
        state.granted.to_tell(shard).map(|back| (session, back))
    }

    /// Ends the read grant of a directory that is to be borrowed. None is asked for before
    /// [`Memory::has_borrowed`].
    pub(crate) fn borrows(&self, dir: DirId) {
        let mut state = self.state.lock();
        state.granted.borrows(dir);
        state.forget(&[dir]);
    }

    /// Notes that a directory is lent, or not.
    pub(crate) fn has_borrowed(&self, dir: DirId) {
        self.state.lock().granted.has_borrowed(dir);
    }

    /// Ends all read grants of a shard: it was started anew, or the session is over there.
    pub(crate) fn ends_at(&self, shard: ShardIndex) {
        let mut state = self.state.lock();
        let dirs = state.granted.give_all_back(shard);
        state.forget(&dirs);
    }

    /// Gives back all read grants, and asks for none any more. This client has nothing open.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        let dirs = state.granted.close();
        state.forget(&dirs);
        state.granted.take_endings();
        state.granted.ended(u64::MAX);
    }

    /// Number of read grants.
    pub(crate) fn grants(&self) -> u64 {
        self.state.lock().granted.count() as u64
    }
}
