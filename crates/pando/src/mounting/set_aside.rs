//! Tells of changes that a mount had acknowledged, and that are lost: in the log, in a file beside
//! the journals, and to programs.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use pando_data::DataFs;
use pando_lent::{Hears, SetAside};

use crate::console::output::say;
use crate::console::text::date;

/// Changes that the log names at a time.
const NAMED_MAX: usize = 10;

/// Tells of lost changes. Copies share what they know.
#[derive(Clone)]
pub struct Teller {
    file: PathBuf,
    data: Arc<OnceLock<Weak<DataFs>>>,
}

impl Teller {
    /// Names lost changes in a file of this folder.
    pub fn new(folder: &Path) -> Self {
        Self { file: folder.join("set-aside"), data: Arc::default() }
    }

    /// Has the programs of a mount told, too.
    pub fn tell_programs(&self, data: &Arc<DataFs>) {
        let _ = self.data.set(Arc::downgrade(data));
    }

    fn append(&self, lines: &str) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        options.open(&self.file)?.write_all(lines.as_bytes())
    }
}

impl Hears for Teller {
    fn set_aside(&self, lost: Vec<SetAside>) {
        // Whatever fails below, programs hear of it.
        if let Some(data) = self.data.get().and_then(Weak::upgrade) {
            tell_programs(&data, &lost);
        }
        let lines: Vec<_> = lost.iter().map(line).collect();
        let shown = self.file.display();
        let written = self.append(&format!("{}\n", lines.join("\n")));
        let lost = lines.len();
        match written {
            Ok(()) => say!("{lost} changes that were acknowledged are lost; {shown} names all:"),
            Err(error) => say!(
                "{lost} changes that were acknowledged are lost; {shown} cannot be written ({error}):"
            ),
        }
        lines.iter().take(NAMED_MAX).for_each(|line| say!("  {line}"));
    }

    fn journal_fails(&self, what: String) {
        say!("{what}");
    }
}

fn tell_programs(data: &Arc<DataFs>, lost: &[SetAside]) {
    let dirs = lost.iter().filter_map(|lost| Some(lost.at.as_ref()?.0.ino));
    dirs.chain(lost.iter().filter_map(|lost| lost.ino)).for_each(|ino| data.is_lost(ino));
    let files: Vec<_> = lost.iter().filter(|it| it.is_data).filter_map(|it| it.ino).collect();
    let data = data.clone();
    // A thread that has one of these files may wait for the thread that runs this.
    let forget = move || files.into_iter().for_each(|ino| data.taken_back(ino));
    let _ = std::thread::Builder::new().name("pando-lost".to_owned()).spawn(forget);
}

fn line(lost: &SetAside) -> String {
    let when = date(lost.when / 1_000_000_000);
    let (what, why) = (lost.what, lost.reason());
    match (&lost.at, lost.ino) {
        (Some((dir, name)), _) => {
            let name = String::from_utf8_lossy(name.as_bytes());
            format!("{when}: {what} of {name:?} in the directory with inode {}: {why}", dir.ino.0)
        }
        (None, Some(ino)) => format!("{when}: {what} of inode {}: {why}", ino.0),
        (None, None) => format!("{when}: {what}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use pando_types::lend::Standing;
    use pando_types::{DirId, DirRef, Ino, Name, ShardIndex, TxnId};

    use super::*;

    #[test]
    fn each_lost_change_has_a_line_with_file_time_and_reason() {
        let temp = tempfile::tempdir().unwrap();
        let teller = Teller::new(temp.path());
        let dir = DirRef { id: DirId::ROOT, ino: Ino(1) };
        let lost = SetAside {
            shard: ShardIndex(0),
            element: (TxnId { shard: ShardIndex(0), number: 5 }, 1),
            what: "the creation",
            at: Some((dir, Name::new(b"a b").unwrap())),
            ino: Some(Ino(9)),
            is_data: true,
            when: 1_700_000_000_000_000_000,
            why: Standing::Fenced,
        };
        teller.set_aside(vec![lost.clone(), SetAside { at: None, ..lost }]);
        let told = std::fs::read_to_string(temp.path().join("set-aside")).unwrap();
        let why = "the shard had not heard of this mount for too long";
        let when = date(1_700_000_000);
        assert_eq!(
            told,
            format!(
                "{when}: the creation of \"a b\" in the directory with inode 1: {why}\n{when}: the creation of inode 9: {why}\n"
            )
        );
    }
}
