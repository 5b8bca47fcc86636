//! Short histories: files and directories that are held while they are removed, replaced, closed or
//! moved, and histories that once differed.

use rustix::fs::OFlags;

use crate::arena::{Arena, Call, Kind, at_random};

/// Calls that remove a held directory, before each call of [`ON_GONE`].
const GONE: [&str; 4] =
    ["root/0 rmdir / d", "root/0 rename / o / d 0", "root/1 rmdir / d", "root/1 rename / o / d 0"];

/// Calls by descriptor 0 and from the working directory.
const ON_GONE: [&str; 37] = [
    "fstat 0",
    "getdents 0",
    "fchmod 0 711",
    "fchown 0 -1 2001",
    "futimens 0 now",
    "fsync 0",
    "fsetxattr 0 user.x v",
    "fgetxattr 0 user.x",
    "flistxattr 0",
    "reopen 0 0x0 1",
    "stat . . 0x0",
    "stat 0 - 0x1000",
    "stat . .. 0x0",
    "stat . x 0x0",
    "stat 0 x 0x0",
    "access . . 1 0x200",
    "access 0 . 2 0x200",
    "chmod . . 700 0x0",
    "chown . . -1 2001 0x0",
    "utimens . . now 0x0",
    "list . .",
    "list 0 .",
    "open . . 0x0 0 1",
    "open . x 0x41 666 1",
    "open 0 x 0x41 666 1",
    "mkdir . x 777",
    "mkdir 0 x 777",
    "symlink x 0 x",
    "mknod 0 x fifo 666",
    "bind . x",
    "link / f 0 x 0x0",
    "rename / f 0 x 0",
    "rename 0 x / f 0",
    "unlink 0 x",
    "rmdir 0 x",
    "setxattr . . user.x v",
    "statfs . .",
];

const HISTORIES: &[&str] = &[
    // A descriptor works on, whatever happens to modes.
    "ann/0 open / f 0x42 600 0; root/1 chmod / f 0 0x0; root/1 chown / f 1003 1003 0x0; ann/0 write 0 x; ann/0 read 0; ann/0 fstat 0; \
     ann/0 ftruncate 0 5; ann/0 fchmod 0 644; ann/0 reopen 0 0x0 1; ann/0 reopen 0 0x1 1; eve/1 cat / f; eve/1 chmod / f 600 0x0; eve/1 cat / f",
    "ann/0 open / f 0x42 600 0; root/1 unlink / f; ann/0 write 0 xx; ann/0 fstat 0; ann/0 fchmod 0 640; ann/0 fstat 0; ann/0 linkself 0 / g; \
     ann/0 reopen 0 0x0 1; ann/0 read 1",
    "ann/0 open / f 0x42 600 0; root/1 open / g 0x41 600 0; root/1 rename / g / f 0; ann/0 write 0 xx; ann/0 fstat 0; ann/0 cat / f; root/1 cat / f",
    // A held directory, and one above it that is closed.
    "ann/0 mkdir / p 755; ann/0 mkdir / p/q 755; ann/0 open / p/q/f 0x41 644 0; eve/1 open / p/q 0x200000 0 0; bob/0 chdir / p/q; \
     ann/0 chmod / p 700 0x0; eve/1 stat 0 f 0x0; eve/1 open 0 f 0x0 0 1; eve/1 stat 0 .. 0x0; eve/1 stat 0 ../q 0x0; bob/0 cat . f; \
     bob/0 stat . ../q 0x0; eve/1 stat / p/q 0x0; eve/1 stat / p/q/f 0x0; ann/0 chmod / p/q 700 0x0; eve/1 stat 0 f 0x0; bob/0 cat . f; \
     bob/0 list . .; bob/0 mkdir . m 755; eve/1 open 0 f 0x0 0 1; eve/1 fchdir 0",
    // A held directory is moved into a private one.
    "ann/0 mkdir / p 700; root/0 mkdir / q 777; root/0 chmod / q 777 0x0; eve/0 chdir / q; eve/1 open / q 0x10000 0 0; root/1 rename / q / p/q 0; \
     eve/0 open . f 0x41 600 1; eve/1 list 0 .; eve/1 stat 0 f 0x0; eve/0 stat / p/q 0x0; \
     eve/0 unlink . f; eve/0 mkdir . m 755; ann/0 list / p/q",
    // A held directory is closed through another mount, and then removed there at once.
    "ann/0 mkdir / a 755; root/0 chmod / a 644 0x0; mapped/1 chdir / a; root/0 chown . a 1001 1003 0x0; lacking/0 rmdir / ../a; \
     mapped/1 listxattr . b/b; mapped/1 stat . b 0x0",
    // A permission was revoked a moment ago.
    "ann/0 mkdir / p 777; ann/0 chmod / p 777 0x0; eve/1 mkdir / p/m 755; ann/0 chmod / p 755 0x0; eve/1 mkdir / p/n 755; eve/1 rmdir / p/m; \
     eve/1 open / p/f 0x41 644 0; ann/0 chmod / p 700 0x0; eve/1 mkdir / p/m 755; eve/1 mkdir / p/o 755; eve/1 stat / p/m 0x0; \
     eve/1 symlink x / p/s; eve/1 mknod / p/s fifo 600; eve/1 link / p/m / p/s 0x0; eve/1 rename / p/m / p/s 0",
    // Where bytes are written: with `O_APPEND`, and without.
    "root/0 open / f 0x442 666 0; root/0 write 0 longer; root/0 noappend 0 0 xx; root/0 pwrite 0 0 yy; root/0 noappend 0 3 z; root/1 cat / f",
    // Only an owner may open with `O_NOATIME`.
    "ann/0 open / f 0x41 644 0; ann/0 mkdir / p 755; eve/1 open / f 0x40000 0 0; eve/1 open / p 0x50000 0 0; root/1 open / f 0x40000 0 0; \
     lacking/1 open / f 0x40000 0 0; able/1 open / f 0x40000 0 0; mapped/1 open / f 0x40000 0 0; ann/1 open / f 0x40000 0 0",
    // The order of refusals in a sticky directory.
    "root/0 mkdir / s 777; root/0 chmod / s 1777 0x0; ann/0 open / s/f 0x41 666 0; ann/0 mkdir / s/d 777; ann/0 mkdir / s/d/in 777; \
     eve/1 rmdir / s/f; eve/1 unlink / s/d; eve/1 rmdir / s/d; eve/1 unlink / s/f; eve/1 rename / s/f / s/d 0; eve/1 rename / s/d / s/f 0; \
     eve/1 rename / s/f / s/g 0; ann/1 rmdir / s/f; ann/1 unlink / s/d; ann/1 rmdir / s/d; able/1 unlink / s/f",
    // A caller that may not search a directory is not told what exists in it.
    "root/0 mkdir / u 755; root/0 mkdir / u/d 755; root/0 open / u/f 0x41 644 0; root/0 chmod / u 744 0x0; eve/1 list / u; eve/1 stat / u/d 0x0; \
     eve/1 stat / u/f/ 0x0; eve/1 stat / u/none 0x0; eve/1 mkdir / u/d 755; eve/1 mkdir / u/f 755; eve/1 rmdir / u/f; eve/1 unlink / u/d; \
     eve/1 open / u/d 0x1 0 0; eve/1 open / u/f 0x10000 0 0; eve/1 readlink / u/f; eve/1 open / u/f 0xc1 600 0; eve/1 open / u/d 0x10040 600 0",
    // The kernel's rules for files of others.
    "root/0 chmod / . 1777 0x0; ann/0 mknod / p fifo 666; ann/0 chmod / p 666 0x0; eve/1 open / p 0x42 600 0; root/1 open / p 0x42 600 0; \
     ann/0 open / f 0x41 666 0; ann/0 chmod / f 666 0x0; eve/1 open / f 0x42 600 0; ann/0 chmod / f 600 0x0; eve/1 link / f / g 0x0; \
     ann/0 symlink f / l; eve/1 cat / l; root/1 cat / l; ann/0 open / x 0x41 666 0; ann/0 chmod / x 4755 0x0; eve/1 link / x / y 0x0",
    // Callers that have access through a second group, or through capabilities.
    "ann/0 mkdir / g 770; root/0 chown / g 1003 2002 0x0; root/0 chmod / g 2770 0x0; ann/1 open / g/f 0x41 660 0; bob/0 cat / g/f; bob/0 mkdir / g/d 700; \
     eve/0 list / g; mapped/1 list / g; able/1 list / g; lacking/1 list / g; root/0 chmod / g 2700 0x0; ann/1 list / g; bob/0 cat / g/f; eve/1 list / g",
];

fn compare_with(other: Kind) {
    let mut arena = Arena::new(other, &[]);
    let mut wrong = Vec::new();
    let mut number = 0;
    let mut compare = |history: Vec<Call>| {
        number += 1;
        if let Some((end, difference)) = arena.run(&history) {
            let lines: Vec<_> = history[..end].iter().map(|call| format!("    {call}")).collect();
            wrong.push(format!("{}\n{difference}", lines.join("\n")));
        }
    };
    for history in HISTORIES {
        compare(history.split(';').map(Call::parse).collect());
    }
    // Of three of these calls one is tried, in each run others. `PANDO_LONG` tries all.
    let step = if std::env::var_os("PANDO_LONG").is_some() { 1 } else { 3 };
    for (gone, who) in
        GONE.iter().flat_map(|gone| ["root/0", "ann/0", "eve/0"].map(|who| (gone, who)))
    {
        for call in ON_GONE.iter().skip(at_random(step)).step_by(step) {
            let open = OFlags::RDONLY | OFlags::DIRECTORY;
            let made = ["mkdir / d 777", "mkdir / o 777", "open / f 0x41 666 0"]
                .map(|line| format!("ann/0 {line}"));
            let held = [format!("open / d {:#x} 0 0", open.bits()), "chdir / d".to_owned()]
                .map(|line| format!("{who} {line}"));
            let lines =
                made.into_iter().chain(held).chain([(*gone).to_owned(), format!("{who} {call}")]);
            compare(lines.map(|line| Call::parse(&line)).collect());
        }
    }
    assert!(wrong.is_empty(), "{} of {number} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_held_goes_on_as_on_a_local_disk_alone() {
    compare_with(Kind::Alone);
}

#[test]
fn what_is_held_goes_on_as_on_a_local_disk_through_two_mounts() {
    compare_with(Kind::Two);
}
