//! A healthy volume has no findings, at rest and after any stop.

use pando_fsck::{Pending, Report};

use crate::support::{Cluster, NAMES_OF_BIG};

fn is_clean(report: &Report) {
    assert!(report.is_clean(), "{:#?}", report.findings);
}

#[test]
fn a_volume_at_rest_is_clean_and_counted() {
    let mut c = Cluster::healthy();
    let report = c.check();
    is_clean(&report);
    assert_eq!(report.pending, Pending::default());
    assert_eq!((report.directories, report.objects), (9, 1));
    assert_eq!(report.files, 8 + NAMES_OF_BIG as u64);
    c.serves();
    is_clean(&c.check());
}
