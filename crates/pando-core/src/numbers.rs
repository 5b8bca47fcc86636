//! Numbers that are never used twice: inos, transactions, sessions (DESIGN §6, "numbers once spoken
//! are durable").
//!
//! Numbers come from blocks. The record names the end of the block reserved; after a restart
//! counting goes on there, so what was left of the block is skipped. A new block is reserved when
//! half of one is left: long before it is needed the reservation is durable, since the shell syncs
//! at least every second, and blocks are large (`Config::number_block`).

use pando_types::{Ino, ShardIndex, TxnId};

use crate::ctx::Ctx;
use crate::keys::{self, Table};
use crate::record::{Numbers as Reserved, Record};

/// The counters of one shard.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    shard: ShardIndex,
    next_ino: u64,
    next_txn: u64,
    reserved: Reserved,
    block: u64,
    #[cfg(feature = "planted")]
    pub(crate) is_forgetful: bool,
}

impl Numbers {
    /// Goes on where the record says. The caller logs [`Numbers::record`] and syncs before anything
    /// else.
    pub fn recover(shard: ShardIndex, reserved: Reserved, block: u64) -> Self {
        Self {
            shard,
            next_ino: reserved.inos,
            next_txn: reserved.txns,
            reserved: Reserved { inos: reserved.inos + block, txns: reserved.txns + block },
            block,
            #[cfg(feature = "planted")]
            is_forgetful: false,
        }
    }

    /// What is reserved now.
    pub fn record(&self) -> Reserved {
        self.reserved
    }

    /// The number the next transaction will have.
    pub fn next_txn(&self) -> u64 {
        self.next_txn
    }

    /// A new ino. Not given back if the operation fails.
    pub fn ino(&mut self, ctx: &mut Ctx<'_>) -> Ino {
        let ino = Ino::new(self.shard, self.next_ino);
        self.next_ino += 1;
        if self.next_ino + self.block / 2 == self.reserved.inos {
            self.reserved.inos += self.block;
            self.reserve(ctx);
        }
        ino
    }

    /// A new transaction.
    pub fn txn(&mut self, ctx: &mut Ctx<'_>) -> TxnId {
        let number = self.next_txn;
        self.next_txn += 1;
        if self.next_txn + self.block / 2 == self.reserved.txns {
            self.reserved.txns += self.block;
            self.reserve(ctx);
        }
        TxnId { shard: self.shard, number }
    }

    fn reserve(&self, ctx: &mut Ctx<'_>) {
        #[cfg(feature = "planted")]
        if self.is_forgetful {
            return;
        }
        // Survives the operation's failure: the block is reserved in soft state already.
        ctx.put_always(keys::table(Table::Numbers), self.reserved.encode());
    }
}
