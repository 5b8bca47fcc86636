//! What programs work on, made once on the local disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::failed::failed;
use super::programs::Programs;
use crate::output::failure::Failure;
use crate::trees::args::TreesArgs;
use crate::trees::made::census::Census;
use crate::trees::made::{repository, tree};
use crate::trees::row::Row;
use crate::volume::make;

pub struct Materials {
    folder: TempDir,
    /// What the tree has.
    pub census: Census,
    /// Lines that `grep` finds in it.
    pub found: u64,
}

impl Materials {
    pub fn make(args: &TreesArgs, programs: &Programs<'_>) -> Result<Self, Failure> {
        let folder = make::temporary("pando-bench-")?;
        let mut materials = Self { folder, census: Census::default(), found: 0 };
        materials.make_tree(args, programs)?;
        if args.rows.contains(&Row::GitClone) {
            materials.make_repository(args.clone_files, programs)?;
        }
        Ok(materials)
    }

    /// The folder that holds all of it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The tree's archive.
    pub fn archive(&self) -> PathBuf {
        self.folder().join("tree.tar")
    }

    /// The paths of the tree's files, with a NUL after each.
    pub fn names(&self) -> PathBuf {
        self.folder().join("names")
    }

    /// The repository that is cloned.
    pub fn bare(&self) -> PathBuf {
        self.folder().join("bare.git")
    }

    /// Packs the tree, and unpacks it here, to know what it has.
    fn make_tree(&mut self, args: &TreesArgs, programs: &Programs<'_>) -> Result<(), Failure> {
        let made = self.folder().join("made");
        let from = match &args.tree {
            Some(tree) => tree.canonicalize().map_err(failed("read", tree))?,
            None => {
                fs::create_dir(&made).map_err(failed("make", &made))?;
                tree::make(&made, args.tree_files).map_err(failed("make a tree in", &made))?;
                made
            }
        };
        let mut pack = Programs::command("tar", &from);
        // The null file system has no hard links.
        pack.args(["--exclude=.git", "--hard-dereference", "-cf"]).arg(self.archive()).arg(".");
        programs.run(&mut pack)?;
        let source = self.folder().join("source");
        fs::create_dir(&source).map_err(failed("make", &source))?;
        programs.run(&mut self.unpack(&source))?;
        let mut names = Vec::new();
        let census = Census::take(&source, |name| names.extend([name, b"\0"].concat()));
        self.census = census.map_err(failed("list", &source))?;
        fs::write(self.names(), names).map_err(failed("write", &self.names()))?;
        self.found = programs.run_with(&mut self.grep(&args.word, &source), &[0, 1])?.lines()?;
        Ok(())
    }

    /// The command that extracts the tree into a folder.
    pub fn unpack(&self, to: &Path) -> Command {
        let mut unpack = Programs::command("tar", self.folder());
        unpack.arg("-xf").arg(self.archive()).arg("-C").arg(to);
        unpack
    }

    /// The command that searches a folder. It ends with 1 if it finds nothing.
    pub fn grep(&self, word: &str, folder: &Path) -> Command {
        let mut grep = Programs::command("grep", folder);
        grep.args(["-r", "-e", word, "."]);
        grep
    }

    fn make_repository(&self, files: u32, programs: &Programs<'_>) -> Result<(), Failure> {
        let (bare, stream) = (self.bare(), self.folder().join("history"));
        repository::write(&stream, files).map_err(failed("write", &stream))?;
        let branch = format!("--initial-branch={}", repository::BRANCH);
        let mut init = git(self.folder());
        programs.run(init.args(["init", "--quiet", "--bare", &branch]).arg(&bare))?;
        let history = fs::File::open(&stream).map_err(failed("read", &stream))?;
        let mut import = git(&bare);
        programs.run(import.args(["fast-import", "--quiet", "--done"]).stdin(history))?;
        fs::remove_file(&stream).map_err(failed("remove", &stream))
    }

    /// Fails if a folder does not have what the tree has.
    pub fn compare(&self, root: &Path) -> Result<(), Failure> {
        let found = Census::take(root, |_| {}).map_err(failed("list", root))?;
        if found == self.census {
            return Ok(());
        }
        let (shown, census) = (root.display(), &self.census);
        Err(Failure::plain(format!("WRONG ANSWER: {shown} has {found:?} instead of {census:?}")))
    }
}

/// `git` without the user's settings. It does not begin to clean up by itself.
pub fn git(folder: &Path) -> Command {
    let mut git = Programs::command("git", folder);
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    for kind in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{kind}_NAME"), "bench");
        git.env(format!("GIT_{kind}_EMAIL"), "bench@localhost");
    }
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(variable);
    }
    git.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "safe.directory=*"]);
    git
}
