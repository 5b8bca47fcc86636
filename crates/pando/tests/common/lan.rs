//! Hosts with a network each, joined by a switch: network namespaces. Nothing of them outlives the
//! test.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::keeper::Keeper;

/// Hosts on one network. A host's number is the last byte of its address, from 1.
pub struct Lan {
    name: String,
    hosts: u8,
    pub keeper: Keeper,
}

/// Runs `ip`, which must succeed.
fn ip(words: &[&str]) {
    let output =
        Command::new("ip").args(words).output().expect("`ip` (package iproute2) is needed");
    assert!(
        output.status.success(),
        "ip {}: {} (this test needs root)",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Lan {
    /// `network`: the first three bytes of each address.
    pub fn new(network: &str, hosts: u8) -> Self {
        static LANS: AtomicU32 = AtomicU32::new(0);
        let number = LANS.fetch_add(1, Ordering::Relaxed);
        let name = format!("pando-test-{}-{number}", std::process::id());
        let lan = Self { name, hosts, keeper: Keeper::new() };
        let switch = lan.switch();
        ip(&["netns", "add", &switch]);
        ip(&["-n", &switch, "link", "add", "switch", "type", "bridge"]);
        ip(&["-n", &switch, "link", "set", "switch", "up"]);
        for host in 1..=hosts {
            let (namespace, port) = (lan.namespace(host), port(host));
            ip(&["netns", "add", &namespace]);
            let pair = ["type", "veth", "peer", "name", "eth0", "netns", &namespace];
            ip(&[&["link", "add", &port, "netns", &switch], &pair[..]].concat());
            ip(&["-n", &switch, "link", "set", &port, "master", "switch", "up"]);
            ip(&["-n", &namespace, "addr", "add", &format!("{network}.{host}/24"), "dev", "eth0"]);
            ip(&["-n", &namespace, "link", "set", "eth0", "up"]);
            ip(&["-n", &namespace, "link", "set", "lo", "up"]);
        }
        lan
    }

    fn switch(&self) -> String {
        format!("{}-switch", self.name)
    }

    fn namespace(&self, host: u8) -> String {
        format!("{}-{host}", self.name)
    }

    /// A program on a host. It dies with the thread or keeper that starts it. The host has a
    /// network of its own, but mounts are shared.
    pub fn command(&self, host: u8, program: &OsStr) -> Command {
        let mut command = Command::new("nsenter");
        let namespace = PathBuf::from("/run/netns").join(self.namespace(host));
        command.arg(format!("--net={}", namespace.display()));
        command.args(["setpriv", "--pdeathsig", "KILL"]).arg(program);
        command
    }

    /// Pulls the host's cable. Packets on their way are lost.
    pub fn cut(&self, host: u8) {
        self.plug(host, "down");
    }

    /// Plugs the host's cable in again.
    pub fn heal(&self, host: u8) {
        self.plug(host, "up");
    }

    fn plug(&self, host: u8, state: &str) {
        let mut command = Command::new("ip");
        command.args(["-n", &self.switch(), "link", "set", &port(host), state]);
        self.keeper.run(&command);
    }
}

fn port(host: u8) -> String {
    format!("port{host}")
}

impl Drop for Lan {
    fn drop(&mut self) {
        let names = (1..=self.hosts).map(|host| self.namespace(host)).chain([self.switch()]);
        for name in names {
            let _ = Command::new("ip").args(["netns", "delete", &name]).output();
        }
    }
}
