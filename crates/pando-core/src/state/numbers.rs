//! Numbers that are never used twice: of inos, transactions and sessions.
//!
//! 1. Numbers come from blocks. A record names the end of the reserved block. After a restart,
//!    counting continues at that end, and the rest of the block is skipped.
//! 2. A new block is reserved when half a block is left. The reservation is durable before it is
//!    needed: the shell syncs at least every second, and blocks are large (`Config::number_block`).

use pando_types::lend::Inos;
use pando_types::{Ino, Lsn, ShardIndex, TxnId};

use crate::records::keys::{self, Table};
use crate::records::record::{Numbers as Reserved, Record};
use crate::state::ctx::Ctx;

/// The counters of one shard.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    shard: ShardIndex,
    next_ino: u64,
    next_txn: u64,
    reserved: Reserved,
    block: u64,
    /// End of the inos that are durably reserved, as far as is known.
    durable: u64,
    /// The last reservation: its log position, and the end of its inos.
    last: (Lsn, u64),
    #[cfg(feature = "planted")]
    is_forgetful: bool,
}

impl Numbers {
    /// Continues at the end of the block in the record. The caller must log [`Numbers::record`] and
    /// sync before it uses a number.
    pub fn recover(shard: ShardIndex, reserved: Reserved, block: u64) -> Self {
        Self {
            shard,
            next_ino: reserved.inos,
            next_txn: reserved.txns,
            reserved: Reserved { inos: reserved.inos + block, txns: reserved.txns + block },
            block,
            durable: reserved.inos + block,
            last: (Lsn(0), 0),
            #[cfg(feature = "planted")]
            is_forgetful: false,
        }
    }

    /// Planted fault: from now on reservations are lost, or not.
    #[cfg(feature = "planted")]
    pub(crate) fn lose_reservations(&mut self, is_forgetful: bool) {
        self.is_forgetful = is_forgetful;
    }

    /// The record of the blocks that are reserved now.
    pub fn record(&self) -> Reserved {
        self.reserved
    }

    /// Number of the next transaction.
    pub fn next_txn(&self) -> u64 {
        self.next_txn
    }

    /// Takes a new ino. It is not given back if the operation fails.
    pub fn ino(&mut self, ctx: &mut Ctx<'_>) -> Ino {
        let ino = Ino::new(self.shard, self.next_ino);
        self.next_ino += 1;
        if self.next_ino + self.block / 2 == self.reserved.inos {
            self.reserved.inos += self.block;
            self.reserve(ctx);
        }
        ino
    }

    /// Takes `count` new inos, at most half a block.
    pub fn inos(&mut self, ctx: &mut Ctx<'_>, count: u64) -> Inos {
        let first = Ino::new(self.shard, self.next_ino);
        self.next_ino += count.clamp(1, (self.block / 2).max(1));
        // A block is reserved when its first half is used up.
        if self.next_ino + self.block / 2 >= self.reserved.inos {
            self.reserved.inos += self.block;
            self.reserve(ctx);
        }
        Inos { first, end: Ino::new(self.shard, self.next_ino) }
    }

    /// Whether `count` inos can be taken that no loss of power gives to others. `durable`: the log
    /// is, up to there.
    pub fn has_durable(&mut self, durable: Lsn, count: u64) -> bool {
        if self.last.0 <= durable {
            self.durable = self.durable.max(self.last.1);
        }
        self.next_ino.saturating_add(count) <= self.durable
    }

    /// Takes a new transaction id.
    pub fn txn(&mut self, ctx: &mut Ctx<'_>) -> TxnId {
        let number = self.next_txn;
        self.next_txn += 1;
        if self.next_txn + self.block / 2 == self.reserved.txns {
            self.reserved.txns += self.block;
            self.reserve(ctx);
        }
        TxnId { shard: self.shard, number }
    }

    fn reserve(&mut self, ctx: &mut Ctx<'_>) {
        // The log position that this input will have.
        self.last = (Lsn(ctx.now.seen.0 + 1), self.reserved.inos);
        #[cfg(feature = "planted")]
        if self.is_forgetful {
            return;
        }
        // This write stands if the operation fails: the block is already reserved in memory.
        ctx.put_always(keys::table(Table::Numbers), self.reserved.encode());
    }
}
