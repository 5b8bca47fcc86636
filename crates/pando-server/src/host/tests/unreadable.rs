//! A shard that has a block in its store that cannot be read.

use super::full::{ask, start_over};
use super::*;

/// A machine that reads nothing. The operation decides whether it meets an unreadable block.
struct Reading {
    toy: Toy,
    failed: Option<(ClientTag, RequestId)>,
}

impl Machine for Reading {
    fn handle(&mut self, now: Now, input: Input, rows: &dyn Rows) -> Result<Effects, Halt> {
        match input {
            Input::Client(tag, request) if matches!(request.op, Op::Unlink(..)) => {
                self.failed = Some((tag, request.head.id));
                Err(Halt::Unreadable("idx-7 is damaged at offset 9".to_owned()))
            }
            input => self.toy.handle(now, input, rows),
        }
    }

    fn begin_anew(&mut self, now: Now, refuse: Errno, _: &dyn Rows) -> Result<Effects, Halt> {
        let (tag, id) = self.failed.take().expect("something has failed");
        let mut reply = self.toy.reply(id, now);
        reply.result = Err(Refusal::Errno(refuse));
        let out = vec![(Need::Committed, Out::Reply(tag, reply))];
        Ok(Effects { out, ..Effects::default() })
    }

    fn answer_at_once(
        &mut self,
        _: Now,
        _: KeyId,
        request: &Request,
        _: &dyn Rows,
    ) -> Result<Option<Box<Reply>>, Halt> {
        match request.op {
            Op::Parent(_) => Err(Halt::Unreadable("idx-7 is damaged at offset 9".to_owned())),
            _ => Ok(None),
        }
    }

    fn has_ready(&self) -> bool {
        false
    }

    fn counters(&self) -> Vec<pando_core::Count> {
        Vec::new()
    }
}

#[test]
fn a_request_for_a_block_that_cannot_be_read_is_told_and_the_shard_goes_on() {
    let machine = || {
        let toy = Toy { shard: ONE, asking: HashMap::new(), threads: Box::leak(Box::default()) };
        Reading { toy, failed: None }
    };
    let (host, _) = start_over(machine);
    let name = pando_types::Name::new(b"a").unwrap();
    let eio = Err(Refusal::Errno(Errno::EIO));
    assert_eq!(ask(&host, 0, Op::Parent(DirRef::ROOT)), eio);
    assert_eq!(ask(&host, 1, Op::Unlink(DirRef::ROOT, name.clone())), eio);
    assert_eq!(ask(&host, 2, Op::StatFs(ONE)), Ok(Body::Done));
    assert_eq!(ask(&host, 3, Op::Unlink(DirRef::ROOT, name)), eio);
    assert_eq!(host.status().swap_remove(0).failed, None);
}
