//! Requests that read a record or two and need not wait. They are answered without effects, and so
//! without the cost that effects have. They are more than half of a kernel's requests.

use alloc::boxed::Box;
use pando_types::KeyId;
use pando_types::op::{Op, Request};
use pando_types::reply::{Body, Refusal, Reply};

use crate::contract::{Halt, Now, Rows};
use crate::ops::lookup::Answer;
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

fn reads_little(op: &Op) -> bool {
    matches!(op, Op::Lookup(..) | Op::GetAttr(_) | Op::DirGetAttr(_) | Op::PartitionStat(..))
}

impl Shard {
    /// The reply to a reading request of a client with this key. It runs the code of
    /// [`Shard::handle`], and its need is [`Committed`](crate::Need::Committed). `None`: the
    /// request is of another kind, or must wait. Then nothing has been done, and the shell calls
    /// `handle`.
    pub fn answer_at_once(
        &mut self,
        now: Now,
        key: KeyId,
        request: &Request,
        rows: &dyn Rows,
    ) -> Result<Option<Box<Reply>>, Halt> {
        if request.head.id.sequence != 0 || !reads_little(&request.op) {
            return Ok(None);
        }
        // `handle` refuses the request, and counts the refusal.
        if self.check_admission(key, request).is_err() {
            return Ok(None);
        }
        let heard = request.head.heard;
        if heard > 0 && !self.has_durably_heard(heard, now.durable) {
            return Ok(None);
        }
        let ctx = Ctx::new(now, rows).with_lookup_cache(self.namespace.lend_lookup_cache());
        let read = self.check_trail(&ctx, request).and_then(|()| self.read(&ctx, request));
        self.namespace.return_lookup_cache(ctx.into_lookup_cache());
        // This request may have been the first to read the headers of a directory.
        self.note_loaded();
        let result = match read {
            Ok(body) => Ok(body),
            // A redirect may need a sync first.
            Err(Stop::Refuse(Refusal::Redirect(_) | Refusal::AskHome | Refusal::HashSlot(_))) => {
                return Ok(None);
            }
            Err(Stop::Refuse(refusal)) => Err(refusal),
            Err(Stop::Wait(_)) => return Ok(None),
            Err(Stop::Halt(halt)) => return Err(halt),
        };
        self.counters.requests += 1;
        Ok(Some(Box::new(self.reply_of(now, request, result))))
    }

    fn read(&mut self, ctx: &Ctx<'_>, request: &Request) -> Result<Body, Stop> {
        self.open_place(&request.op)?;
        match &request.op {
            Op::Lookup(dir, name) => {
                self.lookup(ctx, *dir, name, &request.credentials, Answer::to(request))
            }
            Op::GetAttr(file) => self.getattr(ctx, file),
            Op::DirGetAttr(dir) => self.dir_getattr(ctx, *dir),
            Op::PartitionStat(dir, index) => self.partition_stat(ctx, *dir, *index),
            _ => Err(pando_types::Errno::EINVAL.into()),
        }
    }
}
