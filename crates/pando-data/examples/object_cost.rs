//! Time to store and to read back an object, by store: `object_cost [FOLDER]`.

use std::sync::Arc;
use std::time::Instant;

use pando_data::objects::Objects;
use pando_data::{LocalStore, ObjectStore, RemoteStore};
use pando_types::op::{ObjectId, ObjectRange};

const COUNT: u64 = 2000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let base = std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let folder = base.join(format!("object-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let theirs = object_store::local::LocalFileSystem::new_with_prefix(&folder)?;
    let stores: [(&str, Arc<dyn ObjectStore>); 2] = [
        ("own local folder", Arc::new(LocalStore::open(&folder.join("own"))?)),
        (
            "object_store crate, local folder",
            Arc::new(RemoteStore::new(Arc::new(theirs), "crate")?),
        ),
    ];
    for (name, store) in stores {
        for size in [16 << 10, 1 << 20] {
            measure(
                name,
                &Objects::new(Arc::clone(&store), 0),
                size,
                if size > 65536 { 200 } else { COUNT },
            )?;
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn measure(
    name: &str,
    objects: &Objects,
    size: usize,
    count: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let content = vec![0x5a; size];
    let id = |number: u64| ObjectId(u128::from(size as u64) << 64 | u128::from(number));
    let micros = |start: Instant| start.elapsed().as_secs_f64() * 1e6 / count as f64;
    let start = Instant::now();
    for number in 0..count {
        objects.put(id(number), &content)?;
    }
    let put = micros(start);
    let start = Instant::now();
    let mut target = vec![0; size];
    for number in 0..count {
        let len = size as u64;
        let range = ObjectRange {
            object: id(number),
            offset: 0,
            len,
            object_len: len,
            store: 0,
            key: 0,
            codec: 0,
        };
        objects.read(&range, 0, &mut target)?;
    }
    let get = micros(start);
    let start = Instant::now();
    objects.store().sync()?;
    let sync = micros(start);
    println!(
        "{name}: {size} bytes: put {put:.0} µs, get {get:.0} µs, sync of all {sync:.1} µs an object"
    );
    Ok(())
}
