//! Judges an inode in an entry or at its link shard, and whether the rows beside it fit.

use pando_core::Write;
use pando_core::keys::{self, Kind};
use pando_core::record::Record;
use pando_types::peer::Inode;
use pando_types::reply::Slice;
use pando_types::{DirId, ShardIndex};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::{At, Finding};
use crate::learned::needed::ColdRows;
use crate::rows::cursor;
use crate::rows::key::{Cold, Key};
use crate::rows::source::Rows;
use crate::sweep::pass::Sweep;
use crate::unfinished::place::Place;

impl Sweep<'_> {
    /// Judges an inode and the rows beside it.
    #[expect(clippy::too_many_arguments, reason = "an inode, where it is, and how to say so")]
    pub(crate) fn inode(
        &mut self,
        rows: &mut dyn Rows,
        inode: &Inode,
        cold: ColdRows,
        (shard, key, value): (ShardIndex, &[u8], &[u8]),
        rewrite: &dyn Fn(Inode) -> Vec<u8>,
        (what, at, under): (String, Option<At>, Place),
        beside: &EvidenceBeside,
    ) -> Result<(), String> {
        let has_xattrs = cold.has_xattrs();
        let row = Evidence::row(shard, key, Some(value));
        let finding = |code, detail| {
            let mut finding = Finding::new(code, shard, what.clone(), detail);
            finding.at.clone_from(&at);
            finding.known_by(row.clone()).under(under.clone())
        };
        if inode.has_xattrs == has_xattrs && cold.misfit(inode).is_none() {
            return Ok(());
        }
        // The rows are read again, together. In a running volume, rows that were read one after the
        // other may not belong together.
        let (cold, evidence) = beside.read(rows, shard)?;
        let has_xattrs = cold.has_xattrs();
        if inode.has_xattrs != has_xattrs {
            let found = if inode.has_xattrs {
                // The attributes are lost. That there are none now follows from the rows.
                let put = Write::Put(key.to_vec(), rewrite(Inode { has_xattrs, ..inode.clone() }));
                let detail = "it is said to have extended attributes, and there are none";
                finding(Code::WrongXattrFlag, detail.to_owned()).mended_by(shard, vec![put])
            } else {
                let detail = "it is said to have no extended attributes, and there are some";
                finding(Code::WrongXattrFlag, detail.to_owned())
            };
            self.findings.push(with(found, &evidence));
        }
        if let Some(misfit) = cold.misfit(inode) {
            let found = finding(Code::WrongDataLayout, misfit);
            self.findings.push(with(found, &evidence));
        }
        Ok(())
    }
}

fn with(finding: Finding, evidence: &[Evidence]) -> Finding {
    evidence.iter().fold(finding, |finding, evidence| finding.known_by(evidence.clone()))
}

/// The place of the rows beside an inode.
pub enum EvidenceBeside {
    Name(DirId, u64),
    Link(pando_types::Ino),
}

impl EvidenceBeside {
    fn key(&self, kind: Kind) -> Vec<u8> {
        match self {
            Self::Name(dir, order) => keys::dir(*dir, kind, *order),
            Self::Link(ino) => keys::link(*ino, kind),
        }
    }

    /// Reads all these rows, with their evidence.
    fn read(
        &self,
        rows: &mut dyn Rows,
        shard: ShardIndex,
    ) -> Result<(ColdRows, Vec<Evidence>), String> {
        let (mut cold, mut evidence) = (ColdRows::default(), Vec::new());
        for kind in Cold::KINDS {
            let from = self.key(kind);
            let to = keys::after(&from);
            let found = cursor::range(rows, shard, &from, &to)?;
            for (key, value) in &found {
                if let Some(Key::Cold(_, _, kind) | Key::LinkCold(_, kind)) = Key::parse(key) {
                    cold.pass(kind, value, Slice::decode(value).ok().as_ref());
                }
            }
            let found = found.iter().map(|(key, value)| (key.as_slice(), value.as_slice()));
            evidence.push(Evidence::range(shard, (from, to), found));
        }
        Ok((cold, evidence))
    }
}
