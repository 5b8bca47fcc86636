use super::*;

/// A thread that is in no call that can be seen.
const THREAD: u32 = u32::MAX - 1;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("valid")
}

fn look(dir: u64, text: &str) -> Step {
    Step::Look(dir, name(text))
}

fn begun(step: Step) -> Walk {
    Walk::new(step, vec![(20, name("b")), (ROOT, name("a"))], Vec::new(), None)
}

/// Refused in `/a/b` (nodes 20, 21).
fn refused(step: Step) -> Walks {
    let walks = Walks::default();
    walks.begin(THREAD, begun(step));
    walks
}

fn go(walks: &Walks, step: &Step) -> bool {
    walks.go_on(THREAD, step, Ino)
}

/// Asks for a name, which leads to a node. Whether it is served by what it is.
fn goes(walks: &Walks, dir: u64, text: &str, to: Option<u64>) -> bool {
    let is_served = go(walks, &look(dir, text));
    walks.arrived(THREAD, (dir, &name(text)), to);
    is_served
}

#[test]
fn nobody_walks_who_was_not_refused() {
    let walks = Walks::default();
    assert!(!go(&walks, &look(21, "file")));
    walks.begin(0, begun(look(21, "file")));
    assert!(
        !walks.go_on(0, &look(ROOT, "a"), Ino) && walks.lock().is_empty(),
        "who cannot be seen"
    );
}

#[test]
fn from_the_root_each_component_leads_to_the_next() {
    let walks = refused(look(21, "file"));
    assert!(goes(&walks, ROOT, "a", Some(30)));
    assert!(goes(&walks, ROOT, "a", Some(30)), "asked again, as it was another one");
    assert!(goes(&walks, 30, "b", Some(31)));
    assert!(goes(&walks, 31, "file", Some(40)));
    // The next call, though of the same file.
    assert!(!goes(&walks, 31, "file", Some(40)));
}

#[test]
fn the_operation_ends_a_walk() {
    for (end, is_served) in [
        (Step::Name(31, name("file")), true),
        (Step::Name(31, name("other")), false),
        (Step::Name(30, name("file")), false),
        (Step::Node(40), true),
        (Step::Node(31), false),
        (Step::Move((31, name("file")), (31, name("x"))), false),
    ] {
        let walks = refused(look(21, "file"));
        goes(&walks, ROOT, "a", Some(30));
        goes(&walks, 30, "b", Some(31));
        goes(&walks, 31, "file", Some(40));
        assert_eq!(go(&walks, &end), is_served, "{end:?}");
        assert!(!go(&walks, &end), "over");
    }
}

/// Refused, and known to begin in the directory.
fn held() -> Walks {
    let walks = Walks::default();
    walks.begin(THREAD, begun(look(21, "file")).held((21, name("file"))));
    walks
}

#[test]
fn who_holds_a_directory_goes_on_from_there() {
    let walks = held();
    walks.arrived(THREAD, (21, &name("file")), None);
    assert!(goes(&walks, 21, "file", None), "a name that is gone is asked for twice");
    assert!(go(&walks, &Step::Name(21, name("file"))));
    let walks = held();
    walks.arrived(THREAD, (21, &name("file")), Some(30));
    assert!(goes(&walks, 30, "below", Some(31)));
    assert!(go(&walks, &Step::Node(31)));
    assert!(!go(&walks, &Step::Node(31)), "over");
}

#[test]
fn where_it_cannot_be_seen_where_a_path_begins_nobody_holds_anything() {
    let walks = refused(look(21, "file"));
    assert!(!goes(&walks, 21, "file", None), "the kernel asks twice in the first walk");
    assert!(!goes(&walks, 21, "file", None));
    assert!(goes(&walks, ROOT, "a", Some(30)));
    assert!(goes(&walks, 30, "b", Some(31)), "the second walk");
}

#[test]
fn what_was_not_refused_begins_no_walk() {
    for step in [look(21, "other"), look(22, "file"), Step::Node(21), Step::Name(21, name("file"))]
    {
        let walks = refused(look(21, "file"));
        assert!(!go(&walks, &step), "{step:?}");
        assert!(walks.lock().is_empty(), "over");
    }
}

#[test]
fn where_the_call_cannot_be_seen_a_sibling_is_another_call() {
    let walks = held();
    walks.arrived(THREAD, (21, &name("file")), Some(40));
    assert!(!goes(&walks, 21, "other", Some(41)));
    assert!(walks.lock().is_empty());
}

#[test]
fn where_it_can_be_seen_siblings_and_both_names_of_a_rename_belong_to_it() {
    let mut walk = begun(look(21, "x")).held((21, name("x")));
    assert!(matches!(walk.go(&look(21, "y"), true, Ino), Goes::On(true)));
    assert!(matches!(walk.go(&look(20, "b"), true, Ino), Goes::On(true)), "through `..`");
    assert!(matches!(walk.go(&look(99, "b"), true, Ino), Goes::Over(false)), "somewhere else");
    let step = Step::Move((21, name("x")), (20, name("y")));
    assert!(matches!(walk.go(&step, true, Ino), Goes::Over(true)));
    assert!(matches!(walk.go(&step, false, Ino), Goes::Over(false)));
}

#[test]
fn walks_are_bounded() {
    let walks = Walks::default();
    for thread in 1..=WALKS_MAX as u32 + 1 {
        walks.begin(thread, begun(Step::Node(1)));
    }
    assert_eq!(walks.count.load(Ordering::SeqCst), 1);
}
