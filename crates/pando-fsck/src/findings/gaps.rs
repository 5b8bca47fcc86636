//! Rows that cannot be read. Each such range, a gap, is a finding. Findings that may follow from
//! rows in a gap are dropped.
//!
//! 1. A finding has all rows that it follows from as evidence, absent rows included. If one of them
//!    is in a gap, the finding is dropped.
//! 2. Some findings follow from the absence of rows that could be anywhere. Any gap drops these.
//! 3. A gap in the tables from transactions to removed files drops all findings but unreadable
//!    records and unknown keys. Those tables tell what is unfinished, which shard owns which hash
//!    slot, and which shards exist.

use pando_core::keys::{self, Table};
use pando_types::ShardIndex;

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::{At, Finding};
use crate::findings::report::Report;
use crate::rows::source::{Gap, Page, Rows};

/// All rows but those that cannot be read. It keeps the gaps.
pub struct Readable<'a> {
    rows: &'a mut dyn Rows,
    gaps: Vec<(ShardIndex, Gap)>,
}

impl<'a> Readable<'a> {
    pub fn new(rows: &'a mut dyn Rows) -> Self {
        Self { rows, gaps: Vec::new() }
    }

    /// Drops from a report what may follow from rows in gaps, and adds the gaps as findings. With a
    /// gap, nothing can be mended.
    pub fn judge(&self, report: &mut Report) {
        if self.gaps.is_empty() {
            return;
        }
        let before = report.findings.len() as u64 + std::mem::take(&mut report.not_kept);
        report.findings.retain(|finding| self.may_be_judged(finding));
        report.unjudged += before - report.findings.len() as u64;
        report.findings.iter_mut().for_each(|finding| finding.repair = None);
        report.findings.extend(self.gaps.iter().map(|(shard, gap)| finding(*shard, gap)));
    }

    fn may_be_judged(&self, finding: &Finding) -> bool {
        if matches!(finding.code, Code::UnknownKey | Code::UnreadableRecord) {
            return true;
        }
        let all = keys::table(Table::Txn)..keys::after(&keys::table(Table::Shred));
        let concerns_all = |gap: &Gap| gap.keys.start < all.end && all.start < gap.keys.end;
        let follows = |evidence| self.gaps.iter().any(|(shard, gap)| meets(evidence, *shard, gap));
        !finding.code.follows_from_absence()
            && !self.gaps.iter().any(|(_, gap)| concerns_all(gap))
            && !finding.evidence.iter().any(follows)
    }
}

impl Rows for Readable<'_> {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        let mut from = from.to_vec();
        loop {
            let page = self.rows.page(shard, &from, bytes)?;
            let Some(gap) = page.gap else { return Ok(page) };
            if gap.keys.end <= from {
                return Err(format!("shard {shard} cannot be read: {}", gap.why));
            }
            from.clone_from(&gap.keys.end);
            if !self.gaps.iter().any(|(s, known)| (*s, &known.keys) == (shard, &gap.keys)) {
                self.gaps.push((shard, gap));
            }
        }
    }
}

fn meets(evidence: &Evidence, shard: ShardIndex, gap: &Gap) -> bool {
    match evidence {
        Evidence::Rows { shard: at, from, to, .. }
        | Evidence::Names { shard: at, from, to, .. } => {
            *at == shard && *from < gap.keys.end && gap.keys.start < *to
        }
        Evidence::Object(..) => false,
    }
}

fn finding(shard: ShardIndex, Gap { keys, why }: &Gap) -> Finding {
    let what = format!("keys {} up to {}", keys.start.escape_ascii(), keys.end.escape_ascii());
    let mut finding = Finding::new(Code::UnreadableBlock, shard, what, why.clone());
    let [first, last] = [&keys.start, &keys.end].map(|key| keys::dir_of(key));
    finding.at = first.filter(|_| first == last).map(At::Dir);
    finding
}
