//! Programs that people run, as scripts. Each works in an empty folder of a volume, checks its own
//! results, and fails if one is wrong. (With `-e`, bash would ignore a failure of `a` in `a && b`.)
//! The scripts use these environment variables:
//!
//! | variable | what |
//! |---|---|
//! | `LOCAL` | what [`prepare`] made, on another file system; only read |
//! | `BACK` | an empty folder on another file system |
//! | `PANDO` | the program under test |
//! | `LESS` | how many files, and the like, are divided by this |

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{pando, shell};

/// A program, with the script that runs it.
#[derive(Clone, Copy)]
pub struct Program {
    pub name: &'static str,
    pub script: &'static str,
}

/// A script in which two processes write one database, in this journal mode.
macro_rules! sqlite {
    ($mode:literal) => {
        concat!(
            "mode=",
            $mode,
            r#"; rows=$((60 / LESS))
            sqlite3 a.db "pragma journal_mode=$mode; create table t(id integer primary key, who int, n int);" > /dev/null
            writer() {
                for n in $(seq $rows); do
                    echo "begin immediate; insert into t(who, n) values($1, $n); update t set n = n + 0 where who = $1; commit;"
                done | sqlite3 -bail -cmd ".timeout 600000" a.db
            }
            writer 1 & one=$!; writer 2 & two=$!; wait $one; wait $two
            found=$(sqlite3 -cmd ".timeout 600000" a.db "pragma integrity_check; select count(*), sum(n) from t; pragma journal_mode;")
            test "$found" = "ok"$'\n'"$((2 * rows))|$((rows * (rows + 1)))"$'\n'"$mode""#
        )
    };
}

pub const ALL: [Program; 6] = [GIT, SQLITE_ROLLBACK, RSYNC, MAKE, SQLITE_WAL, TAR];

pub const GIT: Program = Program {
    name: "git",
    script: r#"
        git clone -q --no-hardlinks "$LOCAL/origin" work
        cd work
        git config user.email a@example.org; git config user.name A; git config gc.auto 0
        test "$(git rev-list --count HEAD)" = 3
        for i in $(seq 20); do echo change > d1/new$i; done
        git mv d2 moved; git add -A; git commit -qm more
        git checkout -q -b side HEAD~2; git checkout -q main
        git fsck --full --strict; git gc -q --prune=now; git fsck --full --strict
        test -z "$(git status --porcelain)"
        test "$(git rev-list --count HEAD)" = 4"#,
};

pub const MAKE: Program = Program {
    name: "make",
    script: r#"
        n=$((40 / LESS))
        { for i in $(seq $n); do echo "int f$i(void);"; done; } > all.h
        for i in $(seq $n); do printf '#include "all.h"\nint f%d(void) { return %d; }\n' $i $i > f$i.c; done
        { echo '#include "all.h"'; echo '#include <stdio.h>'; echo 'int main(void) { int s = 0;'
          for i in $(seq $n); do echo "s += f$i();"; done; echo 'printf("%d\n", s); }'; } > main.c
        printf 'OBJ = $(patsubst %%.c,%%.o,$(wildcard *.c))\nsum: $(OBJ)\n\tcc -o $@ $^\n%%.o: %%.c all.h\n\tcc -c -o $@ $<\nclean:\n\trm -f *.o sum\n' > Makefile
        make -s -j4
        test "$(./sum)" = $((n * (n + 1) / 2))
        make -q                              # nothing left to do: times are right
        touch f7.c
        if make -q; then exit 1; fi
        make -s; make clean -s
        if ls *.o 2>/dev/null; then exit 1; fi"#,
};

pub const SQLITE_ROLLBACK: Program = Program { name: "sqlite-rollback", script: sqlite!("delete") };
pub const SQLITE_WAL: Program = Program { name: "sqlite-wal", script: sqlite!("wal") };

pub const RSYNC: Program = Program {
    name: "rsync",
    script: r#"
        rsync -aH "$LOCAL/src/" copy/; rsync -aH copy/ "$BACK/back/"
        test -z "$(rsync -aHi --checksum "$LOCAL/src/" copy/)"
        test -z "$(rsync -aHi --checksum copy/ "$BACK/back/")"
        "$PANDO" manifest "$LOCAL/src" > "$BACK/source.manifest"
        for tree in copy "$BACK/back"; do
            "$PANDO" manifest $tree | diff "$BACK/source.manifest" -
        done"#,
};

pub const TAR: Program = Program {
    name: "tar",
    script: r#"
        tar --format=posix -cf "$BACK/one.tar" -C "$LOCAL" src; tar xpf "$BACK/one.tar"
        tar --format=posix -cf "$BACK/two.tar" src; tar xpf "$BACK/two.tar" -C "$BACK"
        "$PANDO" manifest "$LOCAL/src" > "$BACK/source.manifest"
        for tree in src "$BACK/src"; do
            "$PANDO" manifest $tree | diff "$BACK/source.manifest" -
        done"#,
};

/// A script that makes a tree with all kinds of files.
const TREE: &str = r#"
    mkdir -p src/deep/er && cd src
    for i in $(seq $((300 / LESS))); do echo "file $i" > "f$i.txt"; done
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

const ORIGIN: &str = r#"
    git init -q -b main origin && cd origin
    git config user.email a@example.org && git config user.name A
    for c in 1 2 3; do
        for i in $(seq $((150 / LESS))); do mkdir -p d$((i % 7)); echo "$c $i" > d$((i % 7))/f$i; done
        git add -A && git commit -qm "commit $c"
    done"#;

/// Makes what the programs work with: a tree `src`, and a repository `origin`. `less` divides the
/// number of files, as `LESS` does.
pub fn prepare(local: &Path, less: u32) {
    fs::create_dir_all(local).unwrap();
    for script in [TREE, ORIGIN] {
        shell(local, &format!("LESS={less}\n{script}"));
    }
}

impl Program {
    /// The command that runs the program in `folder`. It takes seconds, and is killed after 900.
    pub fn command(&self, folder: &Path, local: &Path, back: &Path, less: u32) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "900"]);
        command.env("LESS", less.to_string());
        command.args(["bash", "-euxo", "pipefail", "-c", self.script]);
        command.current_dir(folder).env("HOME", back).env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env("LOCAL", local).env("BACK", back).env("PANDO", pando().get_program());
        command
    }
}
