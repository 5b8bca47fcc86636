//! Known answers of the two hashes. Volumes on disk depend on them. If one of these tests fails,
//! the code is wrong, not the test. A separate implementation of SipHash-1-3 and BLAKE3, written
//! from the specifications, computed the answers.

use pando_placement::Secrets;
use pando_types::{DirId, Name, Order};

fn secrets() -> Secrets {
    Secrets { dir: core::array::from_fn(|n| n as u8), name: core::array::from_fn(|n| n as u8) }
}

fn id(parent: DirId, bytes: &[u8], version: u32) -> String {
    secrets().dir_id(parent, &Name::new(bytes).unwrap(), version).to_string()
}

#[test]
fn directory_ids_never_change() {
    let cases: [(&[u8], &str); 7] = [
        (b"a", "cdf45836298ff9147c30399f98459308"),
        (b"B", "b1647097e1565346a9701c12d5aaf8f4"),
        (b"home", "0b2fffcae95a4eb50a56fe4bdf112546"),
        ("café".as_bytes(), "494f97e48f9c1dea2082b969f87741d7"),
        (&[b'x'; 44], "308a6298f511120b183205f4b4fab9b0"), // one BLAKE3 block
        (&[b'x'; 45], "c3abf22139a4a61783c32f8e2864d6d0"), // two
        (&[0xFF; 255], "d30f9bbd4026aaeef415c4abb5fc8dbe"),
    ];
    for (name, expected) in cases {
        assert_eq!(id(DirId::ROOT, name, 0), expected, "{}", name.escape_ascii());
    }
}

#[test]
fn directory_ids_of_other_versions_and_parents_never_change() {
    assert_eq!(id(DirId::ROOT, b"a", 1), "b528dbaabfefdcb5ba943000fcef9f29");
    assert_eq!(id(DirId::ROOT, b"a", u32::MAX), "970fdd61c6f642321a11b6fc763a0f62");
    let parent = secrets().dir_id(DirId::ROOT, &Name::new(b"a").unwrap(), 0);
    assert_eq!(id(parent, b"a", 0), "2058fe992622ebab89c234cb708186c4");
}

#[test]
fn orders_never_change() {
    let cases: [(&[u8], u64); 7] = [
        (b"a", 0x3b11_9587_b57a_5900),
        (b"B", 0x1f41_c819_e6ce_46a0),
        (b"home", 0x21cb_2fb2_95c1_e4e0),
        ("café".as_bytes(), 0x3f79_9c96_8709_eb30),
        (&[b'x'; 44], 0x1cc8_39ee_032a_4b50),
        (&[b'x'; 45], 0x1050_d8cd_c8ba_2600),
        (&[0xFF; 255], 0x2937_efd3_6b5f_beb0),
    ];
    for (name, expected) in cases {
        let order = secrets().order(name);
        assert_eq!(order, Order(expected), "{}", name.escape_ascii());
        assert_eq!(order.ordinal(), 0);
        assert!(order.0 < Order::END);
    }
}
