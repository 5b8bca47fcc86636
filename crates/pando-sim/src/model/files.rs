//! Open files and their contents.

use pando_types::{Credentials, Errno, FileKind, Ino};

use crate::model::{Outcome, Tree, Value, Who, permission};

impl Tree {
    pub(crate) fn readlink(&self, ino: Ino) -> Outcome {
        let node = self.node(ino)?;
        match node.kind {
            FileKind::Symlink => Ok(Value::Bytes(node.data.clone())),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn open(
        &mut self,
        who: Who,
        credentials: &Credentials,
        ino: Ino,
        access: u8,
        truncate: bool,
    ) -> Outcome {
        let node = self.node(ino)?;
        match node.kind {
            FileKind::Directory => return Err(Errno::EISDIR),
            // The kernel follows a symlink, or says ELOOP, before it asks a file system.
            FileKind::Symlink => return Err(Errno::EINVAL),
            _ => {}
        }
        let write = if truncate { permission::WRITE } else { 0 };
        permission::check(node, credentials, access | write)?;
        if truncate && node.kind == FileKind::Regular {
            self.edit(ino, |node| {
                node.data.clear();
                permission::drop_setid_after_change(node, credentials);
            });
        }
        self.hold(who, ino);
        Ok(Value::Stat(self.stat(ino)?))
    }

    pub(crate) fn hold(&mut self, who: Who, ino: Ino) {
        self.edit(ino, |node| *node.opens.entry(who).or_default() += 1);
    }

    pub(crate) fn release(&mut self, who: Who, ino: Ino) -> Outcome {
        if self.is_open(who, ino) {
            self.edit(ino, |node| {
                let last = node.opens.get(&who) == Some(&1);
                if last {
                    node.opens.remove(&who);
                } else if let Some(count) = node.opens.get_mut(&who) {
                    *count -= 1;
                }
            });
            self.reap(ino);
        }
        Ok(Value::Done)
    }

    pub(crate) fn end_session(&mut self, who: Who) -> Outcome {
        let held: Vec<Ino> =
            self.nodes().filter(|(_, n)| n.opens.contains_key(&who)).map(|(ino, _)| ino).collect();
        for ino in held {
            self.edit(ino, |node| {
                node.opens.remove(&who);
            });
            self.reap(ino);
        }
        Ok(Value::Done)
    }

    pub(crate) fn linger(&mut self, who: Who, other: Who) -> Outcome {
        let held = self.nodes().filter(|(_, node)| node.opens.contains_key(&who));
        for ino in held.map(|(ino, _)| ino).collect::<Vec<_>>() {
            self.hold(other, ino);
        }
        Ok(Value::Done)
    }

    pub(crate) fn read(&self, ino: Ino, offset: u64, len: u64) -> Outcome {
        let data = &self.regular(ino)?.data;
        let from = data.len().min(offset as usize);
        let to = data.len().min(offset.saturating_add(len) as usize);
        Ok(Value::Bytes(data[from..to].to_vec()))
    }

    pub(crate) fn write(
        &mut self,
        credentials: &Credentials,
        ino: Ino,
        offset: u64,
        bytes: &[u8],
    ) -> Outcome {
        self.regular(ino)?;
        self.edit(ino, |node| {
            let (from, to) = (offset as usize, offset as usize + bytes.len());
            if node.data.len() < to {
                node.data.resize(to, 0);
            }
            node.data[from..to].copy_from_slice(bytes);
            // A mount knows only one group of the process that writes.
            permission::drop_setid_after_change(
                node,
                &Credentials::new(credentials.uid, credentials.gid, vec![]),
            );
        });
        Ok(Value::Stat(self.stat(ino)?))
    }

    fn regular(&self, ino: Ino) -> Result<&crate::model::Node, Errno> {
        let node = self.node(ino)?;
        match node.kind {
            FileKind::Regular => Ok(node),
            FileKind::Directory => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }
}
