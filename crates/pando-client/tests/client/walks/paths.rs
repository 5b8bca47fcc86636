//! Paths, walked as Linux walks them.

use pando_client::path::Paths;
use pando_client::{Content, IfThere, block_on};
use pando_types::op::RenameFlags;
use pando_types::{Credentials, Errno, FileKind};

use crate::fake::{Cluster, name};

#[test]
fn a_tree_is_made_read_and_removed_by_path() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let paths = Paths::new(&client, Credentials::ROOT);
    block_on(async {
        paths.mkdir(b"/a", 0o755).await?;
        paths.mkdir(b"a//b/", 0o755).await?;
        let (made, is_new) = paths.create(b"/a/b/c", 0o644, IfThere::Refuse).await?;
        assert!(is_new);
        assert_eq!(paths.stat(b"/a/./b/../b/c").await?.ino, made.ino);
        paths.link(b"/a/b/c", b"/a/d").await?;
        paths.rename(b"/a/b", b"/e", RenameFlags::default()).await?;
        assert_eq!(paths.stat(b"/e/c").await?.ino, made.ino);
        let names: Vec<_> =
            paths.readdir(b"/a").await?.iter().map(|entry| entry.name.to_string()).collect();
        assert_eq!(names, ["d"]);
        paths.unlink(b"/e/c").await?;
        paths.rmdir(b"/e/").await?;
        assert_eq!(paths.stat(b"/e").await, Err(Errno::ENOENT));
        let opened = paths.open(b"/a/d", 4, Content::Kept).await?;
        client.release(opened.ino).await?;
        assert_eq!(client.known_inodes(), 0, "nothing to forget");
        let ino = paths.resolve(b"/a/d").await?;
        client.forget(ino, 1);
        assert_eq!(client.known_inodes(), 0);
        Ok::<_, Errno>(())
    })
    .expect("all of it works");
}

#[test]
fn a_directory_held_on_to_is_the_same_wherever_it_is() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let paths = Paths::new(&client, Credentials::ROOT);
    block_on(async {
        paths.mkdir(b"/a", 0o755).await?;
        paths.symlink(b"a", b"/way").await?;
        let dir = paths.dir(b"/way/").await?;
        assert_eq!(dir.ino(), paths.stat(b"/a").await?.ino);
        assert_eq!(dir.stat(&name("x")).await, Err(Errno::ENOENT));
        let made = dir.create(&name("x"), 0o644).await?;
        assert_eq!(dir.create(&name("x"), 0o644).await, Err(Errno::EEXIST));
        paths.rename(b"/a", b"/b", RenameFlags::default()).await?;
        assert_eq!(paths.stat(b"/a").await, Err(Errno::ENOENT));
        dir.create(&name("y"), 0o644).await?;
        assert_eq!(dir.stat(&name("x")).await?, made);
        assert_eq!(paths.stat(b"/b/x").await?.ino, made.ino);
        let listed = dir.readdir().await?;
        assert_eq!(listed, paths.readdir(b"/b").await?);
        assert_eq!(listed.len(), 2);
        dir.unlink(&name("x")).await?;
        paths.unlink(b"/b/y").await?;
        paths.rmdir(b"/b").await?;
        let after = dir.create(&name("x"), 0o644).await;
        assert!(matches!(after, Err(Errno::ESTALE | Errno::ENOENT)), "{after:?}");
        assert!(matches!(paths.dir(b"/b").await, Err(Errno::ENOENT)));
        paths.create(b"/file", 0o644, IfThere::Refuse).await?;
        assert!(matches!(paths.dir(b"/file").await, Err(Errno::ENOTDIR)));
        assert_eq!(client.known_inodes(), 0, "nothing to forget");
        Ok::<_, Errno>(())
    })
    .expect("all of it works");
}

#[test]
fn each_call_in_a_directory_held_on_to_is_one_request() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let paths = Paths::new(&client, Credentials::ROOT);
    block_on(paths.mkdir(b"/a", 0o755)).expect("made");
    let dir = block_on(paths.dir(b"/a")).expect("there");
    let x = name("x");
    let before = client.counters().requests();
    block_on(dir.create(&x, 0o644)).expect("made");
    block_on(dir.stat(&x)).expect("there");
    block_on(dir.unlink(&x)).expect("gone");
    assert_eq!(client.counters().requests() - before, 3);
}

#[test]
fn symlinks_are_followed_and_circles_end() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let paths = Paths::new(&client, Credentials::ROOT);
    block_on(async {
        paths.mkdir(b"/a", 0o755).await?;
        paths.mkdir(b"/a/b", 0o755).await?;
        let file = paths.create(b"/a/b/c", 0o644, IfThere::Refuse).await?.0.ino;
        paths.symlink(b"a/b/", b"/relative").await?;
        paths.symlink(b"/relative", b"/a/absolute").await?;
        paths.symlink(b"../b/c", b"/a/b/up").await?;
        paths.symlink(b"self", b"/self").await?;
        paths.symlink(b"new", b"/a/dangling").await?;
        for path in ["/relative/c", "/a/absolute/c", "/a/absolute/up", "relative/../b/c"] {
            assert_eq!(paths.stat(path.as_bytes()).await?.ino, file, "{path}");
        }
        assert_eq!(paths.lstat(b"/relative").await?.kind, FileKind::Symlink);
        assert_eq!(paths.lstat(b"/relative/").await?.kind, FileKind::Directory);
        assert_eq!(paths.readlink(b"/a/b/up").await?, b"../b/c");
        assert_eq!(paths.stat(b"/self").await, Err(Errno::ELOOP));
        assert_eq!(paths.stat(b"/self/x").await, Err(Errno::ELOOP));
        assert_eq!(paths.stat(b"/a/b/up/").await, Err(Errno::ENOTDIR));
        assert_eq!(paths.stat(b"/a/dangling").await, Err(Errno::ENOENT));
        assert!(paths.create(b"/a/dangling", 0o644, IfThere::Take).await?.1);
        assert_eq!(paths.stat(b"/a/new").await?.kind, FileKind::Regular);
        assert_eq!(paths.create(b"/a/dangling", 0o644, IfThere::Refuse).await, Err(Errno::EEXIST));
        Ok::<_, Errno>(())
    })
    .expect("all of it works");
}

#[test]
fn bad_paths_are_refused_as_linux_refuses_them() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let paths = Paths::new(&client, Credentials::ROOT);
    block_on(paths.create(b"/file", 0o644, IfThere::Refuse)).expect("made");
    block_on(paths.mkdir(b"/dir", 0o755)).expect("made");
    let stats: [(&[u8], Errno); 7] = [
        (b"", Errno::ENOENT),
        (&[b'/'; 4096], Errno::ENAMETOOLONG),
        (&[b'x'; 256], Errno::ENAMETOOLONG),
        (b"/no/x", Errno::ENOENT),
        (b"/file/x", Errno::ENOTDIR),
        (b"/file/", Errno::ENOTDIR),
        (b"/file/..", Errno::ENOTDIR),
    ];
    for (path, errno) in stats {
        assert_eq!(block_on(paths.stat(path)), Err(errno), "{}", path.escape_ascii());
    }
    assert!(block_on(paths.stat(&[b'/'; 4095])).is_ok());
    assert_eq!(block_on(paths.mkdir(b"/", 0o755)), Err(Errno::EEXIST));
    assert_eq!(block_on(paths.create(b"/new/", 0o644, IfThere::Take)), Err(Errno::EISDIR));
    assert_eq!(block_on(paths.unlink(b"/file/")), Err(Errno::ENOTDIR));
    assert_eq!(block_on(paths.unlink(b"/..")), Err(Errno::EISDIR));
    assert_eq!(block_on(paths.rmdir(b"/")), Err(Errno::EBUSY));
    let rename = |from, to| block_on(paths.rename(from, to, RenameFlags::default()));
    assert_eq!(rename(b"/file/", b"/x"), Err(Errno::ENOTDIR));
    assert_eq!(rename(b"/file", b"/x/"), Err(Errno::ENOTDIR));
    assert_eq!(rename(b"/dir/", b"/x/"), Ok(()));
}
