//! A move is held at a point while another process is killed: the source, the command, or a server
//! that takes no part. (In `moves.rs` the two sides die at points of their own.)

use crate::common::all;
use crate::common::site::until;
use crate::site::{Running, Server, Site, hosts_of, shard_move};

/// The points at which the target waits.
const POINTS: [&str; 5] = ["copying", "exchanging", "ready", "taken", "opened"];
const HELD: &str = "--may-be-held";
/// The shard that moves to and fro.
const SHARD: u16 = 2;

/// A site with a third server. That server's shard does not move.
struct Three {
    // Dropped first: the server ends before its folder is removed.
    other: Server,
    site: Site,
    is_at_new: bool,
}

impl Three {
    fn new() -> Self {
        let site = Site::new(&[HELD], &[HELD]);
        let join = ["--join", &site.old.address];
        let other = Server::start(&site.scratch.path().join("other"), &join);
        let moved = shard_move(3, &other.address);
        assert!(moved.status.success(), "{}", all(&moved));
        Self { other, site, is_at_new: false }
    }

    const fn source(&self) -> &Server {
        if self.is_at_new { &self.site.new } else { &self.site.old }
    }

    const fn target(&self) -> &Server {
        if self.is_at_new { &self.site.old } else { &self.site.new }
    }

    fn restart_source(&mut self) {
        if self.is_at_new {
            self.site.rejoin(&[HELD]);
        } else {
            self.site.old.restart(&[HELD]);
        }
    }

    /// Begins to move the shard to the other server, up to this point.
    fn begin(&self, point: &str) -> Running {
        self.target().hold(point);
        let command = Running::moving(SHARD, &self.target().address, &[]);
        self.target().holds();
        command
    }

    /// Runs the command again. The move ends, and the old copy is removed.
    fn comes(&mut self, point: &str) {
        let target = self.target().address.clone();
        let moved = shard_move(SHARD, &target);
        assert!(moved.status.success(), "{point}: {}", all(&moved));
        self.site.goes_on(50);
        assert_eq!(hosts_of(SHARD.into(), &target)[0], target, "{point}");
        let kept = self.source().folder.join(format!("shard-{SHARD:04}"));
        until("the old copy is removed", || !kept.exists());
        self.is_at_new = !self.is_at_new;
    }
}

#[test]
fn a_source_that_is_killed_has_the_shard_still_or_has_given_it_away() {
    let mut three = Three::new();
    for point in POINTS {
        let command = three.begin(point);
        three.source().kill();
        three.target().release();
        // A source that restarts before it was frozen only tells the target that the copy has
        // ended.
        if point != "copying" {
            three.restart_source();
        }
        let result = command.result();
        assert_eq!(result.status.success(), point != "copying", "{point}: {}", all(&result));
        if point == "copying" {
            three.restart_source();
        }
        three.comes(point);
    }
    three.site.end();
}

#[test]
fn a_command_that_is_killed_was_only_watching() {
    let mut three = Three::new();
    for point in POINTS {
        three.begin(point).kill();
        three.target().release();
        three.comes(point);
    }
    three.site.end();
}

#[test]
fn a_server_that_is_killed_beside_a_move_does_not_matter_to_it() {
    let mut three = Three::new();
    for point in POINTS {
        let command = three.begin(point);
        three.other.kill();
        three.target().release();
        let result = command.result();
        assert!(result.status.success(), "{point}: {}", all(&result));
        let join = three.site.old.address.clone();
        three.other.restart(&["--join", &join]);
        three.comes(point);
    }
    three.site.end();
}
