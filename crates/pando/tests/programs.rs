//! Real programs on a real mount.

mod common;

use std::fs;

use common::{TINY, Volume, differences, shell};

const TREE: &str = r#"
    mkdir -p src/deep/er && cd src
    for i in $(seq 300); do echo "file $i" > "f$i.txt"; done
    head -c 3000000 /dev/urandom > big.bin
    head -c 5000 /dev/urandom > deep/small.bin
    ln f1.txt deep/linked.txt
    ln -s ../f2.txt deep/symlink
    printf '\377\376 odd name\n' > $'deep/er/\xff\xfe odd\nname'
    mkfifo deep/pipe
    chmod 4750 f3.txt; chmod 1777 deep/er; truncate -s 100000 deep/sparse
    # rsync sets times of all but regular files only if the second differs.
    touch -h -d '2001-02-03 04:05:06.123456789' f4.txt deep/symlink deep/pipe deep/er deep .
"#;

#[test]
fn git_clones_commits_checks_and_packs() {
    let volume = Volume::up(&TINY);
    let origin = volume.scratch().join("origin");
    fs::create_dir(&origin).unwrap();
    shell(
        &origin,
        r#"
        git init -q -b main . && git config user.email a@example.org && git config user.name A
        for c in 1 2 3; do
            for i in $(seq 150); do mkdir -p d$((i % 7)); echo "$c $i" > d$((i % 7))/f$i; done
            git add -A && git commit -qm "commit $c"
        done"#,
    );
    shell(
        &volume.mount,
        r#"
        git clone -q ../origin work && cd work
        git config user.email a@example.org && git config user.name A
        test "$(git rev-list --count HEAD)" = 3
        for i in $(seq 20); do echo change > d1/new$i; done
        git mv d2 moved && git add -A && git commit -qm more
        git checkout -q -b side HEAD~2 && git checkout -q main
        git fsck --full --strict && git gc -q --prune=now && git fsck --full --strict
        test -z "$(git status --porcelain)""#,
    );
}

#[test]
fn a_c_project_is_built_with_make() {
    let volume = Volume::up(&TINY);
    let out = shell(
        &volume.mount,
        r#"
        mkdir project && cd project
        { for i in $(seq 40); do echo "int f$i(void);"; done; } > all.h
        for i in $(seq 40); do printf '#include "all.h"\nint f%d(void) { return %d; }\n' $i $i > f$i.c; done
        { echo '#include "all.h"'; echo '#include <stdio.h>'; echo 'int main(void) { int s = 0;'
          for i in $(seq 40); do echo "s += f$i();"; done; echo 'printf("%d\n", s); }'; } > main.c
        printf 'OBJ = $(patsubst %%.c,%%.o,$(wildcard *.c))\nsum: $(OBJ)\n\tcc -o $@ $^\n%%.o: %%.c all.h\n\tcc -c -o $@ $<\nclean:\n\trm -f *.o sum\n' > Makefile
        make -s -j4 && ./sum
        make -q                              # nothing left to do: times are right
        touch f7.c && ! make -q && make -s && make clean -s && ! ls *.o 2>/dev/null"#,
    );
    assert_eq!(out.trim(), "820");
}

#[test]
fn sqlite_is_written_by_two_processes_in_both_journal_modes() {
    let volume = Volume::up(&TINY);
    for mode in ["delete", "wal"] {
        let script = r#"
            sqlite3 MODE.db "pragma journal_mode=MODE; create table t(id integer primary key, who int, n int);" > /dev/null
            writer() {
                for n in $(seq 60); do
                    echo "begin immediate; insert into t(who, n) values($1, $n); update t set n = n + 0 where who = $1; commit;"
                done | sqlite3 -cmd ".timeout 60000" MODE.db
            }
            writer 1 & one=$!; writer 2 & two=$!; wait $one; wait $two
            sqlite3 -cmd ".timeout 60000" MODE.db "pragma integrity_check; select count(*), sum(n) from t; pragma journal_mode;""#;
        let out = shell(&volume.mount, &script.replace("MODE", mode));
        assert_eq!(out, format!("ok\n120|3660\n{mode}\n"));
    }
}

#[test]
fn rsync_goes_there_and_back_and_a_second_run_has_nothing_to_do() {
    let volume = Volume::up(&TINY);
    shell(volume.scratch(), TREE);
    let out = shell(
        volume.scratch(),
        "rsync -aH src/ mnt/copy/ && rsync -aH mnt/copy/ back/
         rsync -aHi --checksum src/ mnt/copy/; rsync -aHi --checksum mnt/copy/ back/",
    );
    assert_eq!(out, "", "the second run found differences");
    let (src, back) = (volume.scratch().join("src"), volume.scratch().join("back"));
    assert_eq!(differences(&src, &volume.mount.join("copy")), [""; 0]);
    assert_eq!(differences(&src, &back), [""; 0]);
}

#[test]
fn tar_goes_there_and_back_and_a_restart_changes_nothing() {
    let mut volume = Volume::up(&TINY);
    shell(volume.scratch(), TREE);
    shell(
        volume.scratch(),
        "tar --format=posix -cf one.tar src && mkdir mnt/t && tar xpf one.tar -C mnt/t
         tar --format=posix -cf two.tar -C mnt/t src && mkdir back && tar xpf two.tar -C back",
    );
    let src = volume.scratch().join("src");
    assert_eq!(differences(&src, &volume.mount.join("t/src")), [""; 0]);
    assert_eq!(differences(&src, &volume.scratch().join("back/src")), [""; 0]);
    volume.stop();
    volume.start(&TINY);
    assert_eq!(differences(&src, &volume.mount.join("t/src")), [""; 0]);
    volume.kill();
    volume.start(&TINY);
    assert_eq!(differences(&src, &volume.mount.join("t/src")), [""; 0]);
}

#[test]
fn an_unlinked_file_stays_open_and_is_gone_after_a_crash() {
    use std::io::{Read, Seek, Write};
    let mut volume = Volume::up(&TINY);
    let path = volume.mount.join("f");
    let mut file = fs::File::options().create_new(true).read(true).write(true).open(&path).unwrap();
    file.write_all(&[7; 100_000]).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());
    file.rewind().unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [7; 100_000]);
    let inodes = |volume: &Volume| -> u64 {
        let status = volume.status();
        status["shards"].as_array().unwrap().iter().map(|s| s["inodes"].as_u64().unwrap()).sum()
    };
    assert_eq!(inodes(&volume), 2);
    volume.kill();
    drop(file);
    volume.start(&TINY);
    assert_eq!(inodes(&volume), 1, "the dead session's file is still there");
}
