//! Tables of which process has which shard, as clients and processes believe it.

use std::collections::BTreeMap;

use crate::network::end::End;

/// The owner of a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Believer {
    Client(u32),
    Process(usize),
}

/// Epoch and process of each shard, as last heard of.
type Table = BTreeMap<usize, (u64, usize)>;

/// Where a connection leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Led {
    pub(crate) server: usize,
    /// Whether that process has let the sender in.
    pub(crate) is_let_in: bool,
}

/// All tables, and the processes that connections lead to.
#[derive(Default)]
pub(crate) struct Beliefs {
    tables: BTreeMap<Believer, Table>,
    /// By ends and number of a connection: where it leads.
    pub(crate) led: BTreeMap<(End, End, u64), Led>,
}

impl Beliefs {
    /// Epoch and process of a shard, in this table.
    pub(crate) fn of(&self, believer: Believer, shard: usize) -> Option<(u64, usize)> {
        self.tables.get(&believer)?.get(&shard).copied()
    }

    /// Takes over the entries that have a higher epoch.
    pub(crate) fn learn(
        &mut self,
        believer: Believer,
        heard: impl IntoIterator<Item = (usize, (u64, usize))>,
    ) {
        let table = self.tables.entry(believer).or_default();
        for (shard, new) in heard {
            let known = table.entry(shard).or_insert(new);
            if known.0 < new.0 {
                *known = new;
            }
        }
    }

    pub(crate) fn table(&self, believer: Believer) -> Table {
        self.tables.get(&believer).cloned().unwrap_or_default()
    }
}
