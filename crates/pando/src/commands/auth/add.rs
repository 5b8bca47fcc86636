//! `pando auth add`: issues a key.

use pando_keys::Wanted;
use pando_net::HostsFolder;
use pando_server::Folder;
use pando_wire::Address;

use super::args::AddArgs;
use super::handing::Handing;
use super::volume::open;
use crate::console::output::say;
use crate::failure::Failure;

pub fn run(args: &AddArgs) -> Result<(), Failure> {
    let (folder, keys) = open(&args.volume)?;
    let handing = Handing::prepare()?;
    let authority = keys.authority(args.authority.ca.as_deref()).map_err(Failure::plain)?;
    let addresses = match args.addresses.as_slice() {
        [] => known(&folder),
        addresses => shown(addresses),
    };
    let wanted = Wanted {
        role: args.role,
        name: args.name.clone(),
        read_only: args.ro,
        squash: args.squash,
        days: args.days,
        addresses,
    };
    let bundle = keys.issue(&authority, &wanted).map_err(Failure::plain)?;
    handing.hand_over(&bundle)?;
    if bundle.addresses.is_empty() {
        say!(
            "the key holds no address, because no server of this volume listens for other \
             machines yet: give its user the address later"
        );
    }
    Ok(())
}

pub fn shown(addresses: &[Address]) -> Vec<String> {
    addresses.iter().map(Address::to_string).collect()
}

/// Addresses by which other machines reach the servers, as far as the folder knows. Those of shard
/// 0 come first.
fn known(folder: &Folder) -> Vec<String> {
    let mut hosts = HostsFolder::new(&folder.run()).read();
    hosts.sort_by_key(|hosting| hosting.shard);
    let mut addresses: Vec<String> = Vec::new();
    for address in hosts.into_iter().flat_map(|hosting| hosting.addresses) {
        let is_tcp = matches!(address.parse(), Ok(Address::Tcp(..)));
        if is_tcp && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}
