//! Which requests wait while the store is behind its writers, and how long:
//! docs/design/backpressure.md.

use babu::Pressure;
use pando_core::takes_space;
use pando_types::lend::{Act, Element};
use pando_types::op::Op;

/// Trees may take so many times the memory at which a checkpoint begins.
const CHECKPOINTS: usize = 4;
/// The limit of trees is at least this, bytes. With a lower one, a batch or two would be all of it.
const LIMIT_MIN: usize = 16 << 20;
/// A request waits this long just below the limit, nanoseconds.
const DELAY_MAX: f64 = 1e6;
/// A stream waits as long as so many requests at most. Holders answer nothing while an element is
/// older than a second.
const ELEMENTS_MAX: usize = 64;

/// Most memory of a shard's trees, bytes. At this, writers are stopped.
pub(crate) const fn limit(checkpoint_bytes: usize) -> usize {
    let limit = checkpoint_bytes.saturating_mul(CHECKPOINTS);
    if limit > LIMIT_MIN { limit } else { LIMIT_MIN }
}

/// What becomes of a request that arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Go,
    /// It waits for so many nanoseconds.
    Slow(u64),
    /// It waits for a checkpoint.
    Stop,
}

/// What becomes of a request for `op` under this pressure.
pub(crate) fn verdict(pressure: Pressure, op: &Op) -> Verdict {
    let (fraction, is_hard) = match pressure {
        Pressure::None => return Verdict::Go,
        Pressure::Soft(fraction, _) => (fraction, false),
        Pressure::Hard(_) => (1.0, true),
    };
    if takes_space(op) && is_hard {
        return Verdict::Stop;
    }
    match weight(op) {
        0 => Verdict::Go,
        weight => Verdict::Slow((fraction * DELAY_MAX) as u64 * weight as u64),
    }
}

/// Whether a request for `op` may have to wait.
pub(crate) fn may_wait(op: &Op) -> bool {
    weight(op) > 0
}

/// For how many requests a request waits that is slowed. 0: it is never slowed.
fn weight(op: &Op) -> usize {
    let is_return = |element: &Element| matches!(element.act, Act::Return(_));
    match op {
        op if takes_space(op) => 1,
        Op::SetAttr(..) | Op::DirSetAttr(..) | Op::RemoveXattr(..) => 1,
        // A return that comes late may find its part fenced.
        Op::Stream { elements, .. } if elements.iter().any(is_return) => 0,
        Op::Stream { elements, .. } => elements.len().min(ELEMENTS_MAX),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use babu::Behind;
    use pando_types::lend::Change;
    use pando_types::op::NewNode;
    use pando_types::{DirRef, FileKind, Name, ShardIndex, TxnId};

    use super::*;

    fn name() -> Name {
        Name::new(b"a").unwrap()
    }

    fn create() -> Op {
        let node = NewNode { kind: FileKind::Regular, mode: 0, rdev: 0, symlink: Vec::new() };
        Op::Create { dir: DirRef::ROOT, name: name(), node, exclusive: true, open: false }
    }

    fn change() -> Act {
        let (asked, stamp, ino, digest, after) = Default::default();
        Act::Change(Change { asked, stamp, ino, digest, after })
    }

    fn stream(acts: impl IntoIterator<Item = Act>) -> Op {
        let grant = TxnId { shard: ShardIndex(0), number: 1 };
        let element = |(number, act)| Element { grant, number, act };
        let elements = (1..).zip(acts).map(element).collect();
        Op::Stream { shard: ShardIndex(0), elements, synced: false }
    }

    fn soft(fraction: f64) -> Pressure {
        Pressure::Soft(fraction, Behind::Trees)
    }

    const HARD: Pressure = Pressure::Hard(Behind::Log);

    #[test]
    fn limits_follow_checkpoints_and_have_a_floor() {
        assert_eq!(limit(64 << 20), 256 << 20);
        assert_eq!((limit(0), limit(40_000), limit(4 << 20)), (16 << 20, 16 << 20, 16 << 20));
        assert_eq!((limit((4 << 20) + 1), limit(usize::MAX)), ((16 << 20) + 4, usize::MAX));
    }

    #[test]
    fn delays_grow_with_the_pressure_and_a_stop_comes_last() {
        let delay = |pressure| match verdict(pressure, &create()) {
            Verdict::Go => 0,
            Verdict::Slow(nanos) => nanos,
            Verdict::Stop => u64::MAX,
        };
        assert_eq!((delay(Pressure::None), delay(soft(0.0)), delay(HARD)), (0, 0, u64::MAX));
        let delays: Vec<_> = (0..=1_000).map(|n| delay(soft(f64::from(n) / 1_000.0))).collect();
        assert!(delays.is_sorted() && delays[500] == 500_000 && delays[1_000] == 1_000_000);
    }

    #[test]
    fn only_what_takes_space_is_stopped_and_what_frees_is_not_even_slowed() {
        let never = [
            Op::Unlink(DirRef::ROOT, name()),
            Op::Rmdir(DirRef::ROOT, name()),
            Op::Renew(pando_types::SessionId(1)),
            Op::EndSession(pando_types::SessionId(1)),
            Op::OpenSession,
            Op::Sync(ShardIndex(0)),
            Op::StatFs(ShardIndex(0)),
            stream([change(), change(), Act::Return(None)]),
            stream([]),
        ];
        for op in &never {
            assert!(!takes_space(op));
            assert_eq!([soft(1.0), HARD].map(|it| verdict(it, op)), [Verdict::Go; 2], "{op:?}");
        }
    }

    #[test]
    fn a_stream_of_changes_waits_for_each_of_them_and_is_never_stopped() {
        let of = |count| stream((0..count).map(|_| change()));
        let waits = |count: u64| Verdict::Slow(count * 1_000_000);
        assert_eq!([1, 3].map(|n| verdict(HARD, &of(n))), [waits(1), waits(3)]);
        assert_eq!(verdict(HARD, &of(256)), waits(64));
        assert_eq!(verdict(soft(0.25), &of(4)), waits(1));
        assert_eq!(verdict(Pressure::None, &of(4)), Verdict::Go);
    }
}
