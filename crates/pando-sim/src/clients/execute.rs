//! Runs one operation of the model as a call of the real client.

use std::collections::BTreeMap;
use std::sync::Arc;

use pando_client::path::Paths;
use pando_client::{Client, Content, DirEntry, IfThere, Then, WriteError};
use pando_types::op::{NewNode, Payload, Piece};
use pando_types::{Attr, Credentials, Errno, FileKind, Ino, Kill, Name};

use crate::model::{Call, Op, Outcome, Stat, Value};

/// The result of a call.
pub struct Executed {
    /// The answer, in the model's form.
    pub outcome: Outcome,
    /// Whether the call went by a path that, in the end, no shard judged.
    pub is_loose: bool,
    /// Attributes from the answer, with times and versions.
    pub attr: Option<Attr>,
}

/// Runs `call`. A page of a listing holds `page` entries.
pub async fn execute(client: &Arc<Client>, call: &Call, page: u32) -> Executed {
    let mut attr = None;
    if let Op::ByPath { path, to_path, op } = &call.op {
        let paths = Paths::new(client, call.credentials.clone());
        let outcome = by_path(&paths, (path, to_path), op, &mut attr).await;
        return Executed { outcome, is_loose: paths.was_loose(), attr };
    }
    let outcome = by_number(client, call, page, &mut attr).await;
    Executed { outcome, is_loose: false, attr }
}

async fn by_number(
    client: &Arc<Client>,
    call: &Call,
    page: u32,
    seen: &mut Option<Attr>,
) -> Outcome {
    let credentials = &call.credentials;
    let mut stat = |attr: Attr| Ok(Value::Stat(to_stat(seen.insert(attr))));
    match &call.op {
        Op::Lookup(dir, name) => stat(client.lookup(credentials, *dir, name).await?),
        Op::Create { dir, name, kind, mode, symlink, exclusive, open } => {
            let node = NewNode { kind: *kind, mode: *mode, rdev: 0, symlink: symlink.clone() };
            let if_there = if *exclusive { IfThere::Refuse } else { IfThere::Take };
            let then = if *open { Then::Open } else { Then::Nothing };
            let (attr, new) = client.create(credentials, *dir, name, node, if_there, then).await?;
            Ok(Value::Created(to_stat(seen.insert(attr)), new))
        }
        Op::Mkdir(dir, name, mode) => stat(client.mkdir(credentials, *dir, name, *mode).await?),
        Op::Unlink(dir, name) => done(client.unlink(credentials, *dir, name).await?),
        Op::Rmdir(dir, name) => done(client.rmdir(credentials, *dir, name).await?),
        Op::Link(ino, dir, name) => stat(client.link(credentials, *ino, *dir, name).await?),
        Op::Rename { from, name, to, new_name, flags } => {
            done(client.rename(credentials, *from, name, *to, new_name, *flags).await?)
        }
        Op::GetAttr(ino) => stat(client.getattr(*ino).await?),
        Op::SetAttr(ino, set) => stat(client.setattr(credentials, *ino, set.clone()).await?),
        Op::Access(ino, mask) => done(client.access(credentials, *ino, *mask).await?),
        Op::Readlink(ino) => Ok(Value::Bytes(client.readlink(credentials, *ino).await?)),
        Op::Open { ino, access, truncate } => {
            let content = if *truncate { Content::Cut } else { Content::Kept };
            stat(client.open(credentials, *ino, *access, content, None).await?)
        }
        Op::Release(ino) if ino.0 % 2 == 0 => done(client.release(*ino).await?),
        Op::Release(ino) => done(client.release_all(&[*ino]).await?),
        Op::Read(ino, offset, len) => read(client, *ino, *offset, *len).await,
        Op::Write(ino, offset, bytes) => {
            stat(write(client, credentials, *ino, *offset, bytes).await?)
        }
        Op::GetXattr(ino, name) => {
            Ok(Value::Bytes(client.getxattr(credentials, *ino, name).await?))
        }
        Op::ListXattr(ino) => {
            Ok(Value::Names(client.listxattr(credentials, *ino).await?.into_iter().collect()))
        }
        Op::SetXattr(ino, name, value, mode) => {
            done(client.setxattr(credentials, *ino, name, value, *mode).await?)
        }
        Op::RemoveXattr(ino, name) => done(client.removexattr(credentials, *ino, name).await?),
        Op::ReadDir(dir) => list(client, call, *dir, page).await,
        Op::Parent(dir) => Ok(Value::Ino(client.parent(*dir).await?)),
        Op::EndSession => done(client.close().await?),
        Op::ByPath { .. } | Op::Linger(_) => panic!("no call by number"),
    }
}

async fn by_path(
    paths: &Paths<'_>,
    (path, to_path): (&[Name], &[Name]),
    op: &Op,
    seen: &mut Option<Attr>,
) -> Outcome {
    let at = |name| path_bytes(path, Some(name));
    let mut stat = |attr: Attr| Ok(Value::Stat(to_stat(seen.insert(attr))));
    match op {
        Op::Lookup(_, name) => stat(paths.lstat(&at(name)).await?),
        Op::Create { name, mode, .. } => {
            let (attr, new) = paths.create(&at(name), *mode, IfThere::Refuse).await?;
            Ok(Value::Created(to_stat(seen.insert(attr)), new))
        }
        Op::Mkdir(_, name, mode) => stat(paths.mkdir(&at(name), *mode).await?),
        Op::Unlink(_, name) => done(paths.unlink(&at(name)).await?),
        Op::Rmdir(_, name) => done(paths.rmdir(&at(name)).await?),
        Op::Rename { name, new_name, flags, .. } => {
            done(paths.rename(&at(name), &path_bytes(to_path, Some(new_name)), *flags).await?)
        }
        Op::SetAttr(_, set) => {
            Ok(Value::Ino(paths.set_dir_attr(&path_bytes(path, None), set).await?))
        }
        Op::ReadDir(_) => {
            let listed = paths.readdir(&path_bytes(path, None)).await?;
            let entry = |entry: DirEntry| (entry.name, (entry.ino, entry.kind));
            Ok(Value::Entries(listed.into_iter().map(entry).collect()))
        }
        other => panic!("{other:?} is not asked for by path"),
    }
}

fn path_bytes(path: &[Name], last: Option<&Name>) -> Vec<u8> {
    let slashed = |name: &Name| [b"/", name.as_bytes()].concat();
    match path.iter().chain(last).map(slashed).collect::<Vec<_>>().concat() {
        root if root.is_empty() => b"/".to_vec(),
        path => path,
    }
}

const fn done((): ()) -> Outcome {
    Ok(Value::Done)
}

pub(super) fn to_stat(attr: &Attr) -> Stat {
    Stat {
        ino: attr.ino,
        kind: attr.kind,
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        size: attr.size,
    }
}

/// Reads `len` bytes of a small file from `offset` on.
pub async fn read(client: &Client, ino: Ino, offset: u64, len: u64) -> Outcome {
    let layout = client.read_data(ino, offset, len).await?;
    if layout.attr.kind != FileKind::Regular {
        return Err(Errno::EINVAL);
    }
    assert!(layout.is_inline && layout.slices.is_empty(), "these files are small");
    let mut bytes = layout.inline;
    bytes.resize(layout.attr.size as usize, 0);
    let from = bytes.len().min(offset as usize);
    let to = bytes.len().min((offset + len) as usize);
    Ok(Value::Bytes(bytes[from..to].to_vec()))
}

/// Writes bytes to a small file at `offset`.
pub async fn write(
    client: &Client,
    credentials: &Credentials,
    ino: Ino,
    offset: u64,
    bytes: &[u8],
) -> Result<Attr, Errno> {
    let piece = Piece { offset, payload: Payload::Inline(bytes.to_vec()) };
    // A mount gets this flag from its kernel.
    let kill = (credentials.uid != 0).then_some(Kill::UnlessOf(credentials.gid));
    match client.write_data(ino, None, vec![piece], None, kill).await {
        Ok(attr) => Ok(attr),
        Err(WriteError::Errno(errno) | WriteError::Unsure(errno)) => Err(errno),
        Err(WriteError::DataChanged) => panic!("nothing was asked of the data version"),
    }
}

/// Lists a directory page by page. If `page` is odd, pages are fetched ahead.
async fn list(client: &Arc<Client>, call: &Call, dir: Ino, page: u32) -> Outcome {
    let credentials = &call.credentials;
    let mut entries: BTreeMap<Name, (Ino, FileKind)> = BTreeMap::new();
    let mut position = 0;
    client.opendir(credentials, dir).await?;
    let mut listing = client.listing_in_pages(credentials, dir, position, page)?;
    loop {
        let found = if page % 2 == 1 {
            listing.next().await?
        } else {
            client.readdir(credentials, dir, position, page).await?
        };
        let Some(last) = found.last() else { return Ok(Value::Entries(entries)) };
        assert!(found[0].position > position, "positions go up");
        position = last.position;
        for entry in found {
            let twice = entries.insert(entry.name.clone(), (entry.ino, entry.kind));
            assert!(twice.is_none(), "{} of {dir:?} is listed twice", entry.name);
        }
    }
}
