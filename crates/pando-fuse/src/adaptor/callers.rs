//! On whose behalf a request runs, and what follows if a shard refuses it.

use pando_types::{Credentials, Errno, Ino, Judge};

use crate::adaptor::state::inner::Inner;
use crate::adaptor::state::powers::known;
use crate::protocol::request::Caller;

/// What to do about a request that failed.
pub(crate) enum Refused {
    /// Make the request again with these credentials, which tell more of its caller.
    Known(Credentials),
    /// Answer `ENOENT`: the request is about a removed directory.
    Gone,
    /// Return the error.
    Finally,
}

impl Inner {
    /// Credentials with all powers of a caller. `None` if the caller is not visible, or does not
    /// wait any more.
    pub(crate) fn powers_of(&self, caller: Caller) -> Option<Credentials> {
        let (notifier, sight) = (self.notifier()?, self.sight.as_ref()?);
        let known = known(sight, caller)?;
        notifier.awaits_answer(caller.request).then_some(known)
    }

    /// Credentials for a request about these nodes. If a supplementary group may decide, all powers
    /// of `caller` are looked up at once. Otherwise that happens after a shard has refused.
    pub(crate) fn caller(&self, caller: Caller, nodes: &[u64]) -> Credentials {
        let known = self.memory.may_need_groups(caller, nodes).then(|| self.powers_of(caller));
        let by_kernel = Credentials { uid: caller.uid, gid: caller.gid, judge: Judge::Kernel };
        known.flatten().unwrap_or(by_kernel)
    }

    /// Decides what to do about a request that failed with `errno`.
    pub(crate) async fn refused(
        &self,
        errno: Errno,
        credentials: &Credentials,
        caller: Caller,
        nodes: &[u64],
    ) -> Refused {
        match errno {
            Errno::EACCES | Errno::EPERM
                if credentials.uid != 0 && credentials.judge == Judge::Kernel =>
            {
                self.powers_of(caller).map_or(Refused::Finally, Refused::Known)
            }
            Errno::ESTALE => {
                for node in nodes {
                    let found = self.fs.namespace().getattr(Ino(*node)).await;
                    if found.is_err_and(|errno| self.removed(*node, errno).is_some()) {
                        return Refused::Gone;
                    }
                }
                Refused::Finally
            }
            _ => Refused::Finally,
        }
    }
}
