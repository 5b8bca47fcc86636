//! Applies one damage. It is found under its code and no other. It is mended if that needs no
//! guess.

use std::collections::BTreeSet;

use pando_fsck::Code;

use super::Cluster;
use Then::{Left, Mended};

/// What `--repair` does about a damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    Mended,
    Left,
}

/// Damages a healthy volume, checks it, and repairs it.
pub fn finds(code: Code, then: Then, inflict: fn(&mut Cluster)) {
    let mut c = Cluster::healthy();
    assert!(c.check().is_clean());
    inflict(&mut c);
    let report = c.check();
    let codes: BTreeSet<Code> = report.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, BTreeSet::from([code]), "what is found: {:#?}", report.findings);
    for finding in &report.findings {
        assert_eq!(finding.is_repairable(), then == Mended, "{finding:#?}");
    }
    let repaired = c.repair();
    if then == Left {
        assert!(repaired.mended.is_empty(), "{:#?}", repaired.mended);
        assert!(repaired.left.findings.iter().all(|finding| finding.code == code));
        assert!(!repaired.left.is_clean());
        return;
    }
    assert_eq!(repaired.mended.first().map(|finding| finding.code), Some(code));
    assert!(repaired.left.is_clean(), "what a repair leaves: {:#?}", repaired.left.findings);
    c.serves();
    let after = c.check();
    assert!(after.is_clean(), "{:#?}", after.findings);
}
