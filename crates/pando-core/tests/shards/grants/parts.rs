//! Parts of directories that have split.

use pando_core::Said;
use pando_types::lend::Part;
use pando_types::op::Op;
use pando_types::reply::{Body, DirAttr};
use pando_types::{DirRef, Order, PartitionIndex, Radix};

use super::{Holder, first};
use crate::support::Cluster;

/// A directory of one shard with 24 names in two partitions.
fn split() -> (Cluster, DirRef, Holder) {
    let change = |config: &mut pando_core::Config| {
        (config.lends, config.split_threshold) = (true, 20);
    };
    let mut c = Cluster::with(1, change);
    let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
    for n in 0..24 {
        c.create(dir, &format!("n{n}")).unwrap();
    }
    c.settle();
    assert_eq!(c.partitions(c.all(), dir).len(), 2);
    let holder = Holder::new(&c, c.home(dir));
    (c, dir, holder)
}

const fn second(dir: DirRef) -> Part {
    Part { dir, partition: PartitionIndex(1) }
}

fn attr_of(said: Said) -> DirAttr {
    match said {
        Said::Answer(Ok(Body::Dir(attr)), None) => attr,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_holder_of_the_first_part_tells_of_what_it_has() {
    let (mut c, dir, mut holder) = split();
    let grant = holder.borrow(&mut c, first(dir)).unwrap();
    let attr = attr_of(holder.say(&mut c, Op::DirGetAttr(dir)));
    let [only] = &attr.deltas[..] else { panic!("{attr:?}") };
    assert_eq!((only.partition, only.radix), (PartitionIndex(0), Radix(1)));
    assert_eq!(attr.history.of, None, "the home has another part");
    let of_second = Op::PartitionStat(dir, PartitionIndex(1));
    assert!(matches!(holder.say(&mut c, of_second.clone()), Said::Travel(its) if its.is_empty()));
    let Ok(Body::Delta(other)) = c.run(holder.shard, of_second) else { panic!() };
    assert_eq!(only.entries + other.entries, 24);

    let new = name_in(&c, 0);
    holder.create(&mut c, dir, &new).unwrap();
    let after = attr_of(holder.say(&mut c, Op::DirGetAttr(dir)));
    assert_eq!(after.deltas[0].entries, only.entries + 1);
    holder.give_back(&mut c, grant);
    let Ok(Body::Dir(all)) = c.run(holder.shard, Op::DirGetAttr(dir)) else { panic!() };
    assert_eq!(all.deltas.iter().map(|delta| delta.entries).sum::<u64>(), 25);
    assert_eq!(all.history.of, Some(holder.shard));
}

/// A new name whose order is in this partition, of two.
fn name_in(c: &Cluster, partition: u32) -> String {
    let orders = pando_placement::range(PartitionIndex(partition), Radix(1));
    let secrets = &c.configs[0].secrets;
    let is_in = |name: &String| orders.contains(&secrets.order(name.as_bytes()).0);
    (0..).map(|n| format!("new{n}")).find(is_in).unwrap()
}

/// Each part has a hold of its own, and that of the first one says nothing of the others.
#[test]
fn a_holder_of_two_parts_tells_of_each_by_itself() {
    let (mut c, dir, mut holder) = split();
    holder.borrow(&mut c, first(dir)).unwrap();
    let grant = holder.borrow(&mut c, second(dir)).unwrap();
    let attr = attr_of(holder.say(&mut c, Op::DirGetAttr(dir)));
    let partitions: Vec<_> = attr.deltas.iter().map(|delta| delta.partition).collect();
    assert_eq!(partitions, [PartitionIndex(0)]);
    let of_second = Op::PartitionStat(dir, PartitionIndex(1));
    let Ok(Body::Delta(delta)) = holder.here(&mut c, of_second.clone()) else { panic!() };
    assert_eq!(delta.entries + attr.deltas[0].entries, 24);
    assert_eq!(holder.core.grants_of(&of_second), [grant]);
}

/// What its holder knows of one part says nothing of a file in another: an `fsync` of it travels.
#[test]
fn an_operation_is_about_the_part_that_has_its_name() {
    let (mut c, dir, mut holder) = split();
    let grant = holder.borrow(&mut c, second(dir)).unwrap();
    for (partition, expected) in [(0, Vec::new()), (1, vec![grant])] {
        let lookup = Op::Lookup(dir, c.name(&name_in(&c, partition)));
        assert_eq!(holder.core.about(&lookup, dir.id), expected, "partition {partition}");
    }
    assert_eq!(holder.core.about(&Op::DirGetAttr(dir), dir.id), [grant]);
}

#[test]
fn a_holder_of_another_part_gives_it_back_before_the_home_is_asked() {
    let (mut c, dir, mut holder) = split();
    let grant = holder.borrow(&mut c, second(dir)).unwrap();
    let travels = holder.say(&mut c, Op::DirGetAttr(dir));
    assert!(matches!(travels, Said::Travel(its) if its == [grant]));
    let Ok(Body::Delta(_)) = holder.here(&mut c, Op::PartitionStat(dir, PartitionIndex(1))) else {
        panic!()
    };
}

#[test]
fn what_is_asked_about_all_of_a_directory_is_not_answered_from_a_part() {
    let (mut c, dir, mut holder) = split();
    let grant = holder.borrow(&mut c, first(dir)).unwrap();
    let set = pando_types::SetAttr { mode: Some(0o700), ..Default::default() };
    let travels = holder.say(&mut c, Op::DirSetAttr(dir, set));
    assert!(matches!(travels, Said::Travel(its) if its == [grant]));
    // A rename from one part to another is a transaction.
    let other = holder.borrow(&mut c, second(dir)).unwrap();
    let (from, to) = (name_in(&c, 0), name_in(&c, 1));
    holder.create(&mut c, dir, &from).unwrap();
    let rename = Op::Rename {
        from: dir,
        name: c.name(&from),
        to: dir,
        new_name: c.name(&to),
        flags: Default::default(),
    };
    let both = [grant.min(other), grant.max(other)];
    assert!(matches!(holder.say(&mut c, rename), Said::Travel(its) if its == both));
}

#[test]
fn a_part_is_asked_for_by_any_order_in_it() {
    let (mut c, dir, holder) = split();
    let orders = pando_placement::range(PartitionIndex(1), Radix(1));
    c.session = holder.session;
    let number = super::number(&c, 1);
    let op = Op::Borrow(holder.session, number, dir, Order(orders.end - 1));
    let Ok(Body::Lent(loan, _)) = c.run(holder.shard, op) else { panic!() };
    assert_eq!(loan.partition, PartitionIndex(1));
    // The same part again, by its first order.
    let op = Op::Borrow(holder.session, number, dir, Order(orders.start));
    let Ok(Body::Lent(again, _)) = c.run(holder.shard, op) else { panic!() };
    assert_eq!(again.grant, loan.grant);
}

#[test]
fn a_part_that_cannot_split_is_lent_beyond_the_threshold() {
    let change = |config: &mut pando_core::Config| {
        (config.lends, config.split_threshold) = (true, 20);
        config.partitions_per_shard = 1;
    };
    let mut c = Cluster::with(1, change);
    let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
    for n in 0..30 {
        c.create(dir, &format!("n{n}")).unwrap();
    }
    c.settle();
    assert_eq!(c.partitions(c.all(), dir).len(), 1);
    let mut holder = Holder::new(&c, c.home(dir));
    holder.borrow(&mut c, first(dir)).unwrap();
    for n in 0..30 {
        holder.create(&mut c, dir, &format!("more{n}")).unwrap();
    }
}
