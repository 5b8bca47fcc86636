//! A request that travels may concern more parts than the one at its shard. Those are given back
//! before it leaves, so that its transaction finds nobody in its way.

use pando_client::{Called, Transport};
use pando_types::op::{Op, Request};
use pando_types::requests::asked::names_of;
use pando_types::{DirId, Name, SetAttr, ShardIndex, TxnId};

use crate::borrowing::Borrowing;

/// Whether a change concerns the directory's entry, too.
pub(crate) const fn is_in_entry(set: &SetAttr) -> bool {
    set.mode.is_some() || set.uid.is_some() || set.gid.is_some()
}

impl<T: Transport> Borrowing<T> {
    /// Parts that are here and that a request concerns which travels, beside those at its shard.
    pub(crate) fn beside(&self, shard: ShardIndex, request: &Request) -> Vec<(ShardIndex, TxnId)> {
        let mut grants: Vec<(ShardIndex, TxnId)> = Vec::new();
        match &request.op {
            Op::Rmdir(dir, name) => grants.extend(self.places.child(dir.id, name)),
            Op::DirSetAttr(dir, set) => {
                // Each part of the directory has a copy.
                let others = self.parts_of(dir.id);
                grants.extend(others.into_iter().filter(|(at, _)| *at != shard));
                let parent = self.places.place(dir.id).filter(|_| is_in_entry(set));
                grants.extend(parent.and_then(|(parent, name)| self.part_of(parent, &name)));
            }
            Op::Rename { from, name, to, new_name, .. } => {
                grants.extend(self.places.child(from.id, name));
                grants.extend(self.places.child(to.id, new_name));
            }
            Op::Link(..) => {}
            _ => return grants,
        }
        if matches!(request.op, Op::Rename { .. } | Op::Link(..)) {
            let names = names_of(&request.op).into_iter().flatten().flatten();
            let others = names.filter_map(|(dir, name)| self.part_of(dir.id, name));
            grants.extend(others.filter(|(at, _)| *at != shard));
        }
        grants.retain(|(at, grant)| self.is_here(*at, *grant));
        grants
    }

    fn is_here(&self, shard: ShardIndex, grant: TxnId) -> bool {
        let state = self.side(shard).lock();
        state.lent.as_ref().is_some_and(|lent| lent.uses.contains_key(&grant))
    }

    /// Parts of a directory that are here.
    fn parts_of(&self, dir: DirId) -> Vec<(ShardIndex, TxnId)> {
        let at = |shard| {
            let state = self.side(shard).lock();
            let grants = state.lent.as_ref().map_or_else(Vec::new, |it| it.core.grants_in(dir));
            grants.into_iter().map(move |grant| (shard, grant))
        };
        self.shards().flat_map(at).collect()
    }

    /// The part of a directory with a name, if it is here.
    pub(crate) fn part_of(&self, dir: DirId, name: &Name) -> Option<(ShardIndex, TxnId)> {
        let order = self.settings.secrets.order(name.as_bytes());
        self.shards().find_map(|shard| {
            let state = self.side(shard).lock();
            Some((shard, state.lent.as_ref()?.core.grant_at(dir, order)?))
        })
    }

    /// Lets a request travel once the shards of these parts have them back.
    pub(crate) async fn travel_after(
        &self,
        shard: ShardIndex,
        request: Box<Request>,
        grants: Vec<(ShardIndex, TxnId)>,
    ) -> Called {
        self.hand_back(grants).await;
        self.call_later(shard, request).await
    }

    /// Gives parts back.
    pub(crate) fn give_back_to(&self, grants: &[(ShardIndex, TxnId)]) {
        for (at, grant) in grants {
            self.side(*at).lock().give_back(&[*grant], self.inner.machine_nanos());
            self.side(*at).to_send.notify_one();
        }
    }

    /// Gives parts back, and waits until their shards have them.
    pub(crate) async fn hand_back(&self, grants: Vec<(ShardIndex, TxnId)>) {
        self.give_back_to(&grants);
        for (at, grant) in grants {
            self.flush_of(at, Some(&[grant])).await;
        }
    }
}
