//! `pando shard move`: asks the target server to take a shard over, and shows the progress.

use std::process::ExitCode;
use std::time::Duration;

use indicatif::ProgressBar;
use pando_types::ShardIndex;
use pando_wire::{Address, Ask, MoveStage, Moving, Told};

use crate::commands::shard::args::ShardMoveArgs;
use crate::console::meter::{Meter, Unit};
use crate::console::output;
use crate::console::text::bytes;
use crate::failure::Failure;
use crate::volume::keys;
use crate::volume::named::Named;
use crate::volume::questioner::Questioner;

const LOOK_EVERY: Duration = Duration::from_millis(100);

pub fn run(args: &ShardMoveArgs) -> Result<ExitCode, Failure> {
    let named = Named::Servers(vec![args.to.clone()]);
    let mut questioner = Questioner::new(&named, keys::find(&named, args.key.as_ref())?)?;
    let mut ask = |ask: Ask| questioner.ask(std::slice::from_ref(&args.to), ask);
    let explain = |error| named.explain(&error);
    let shard = ShardIndex(args.shard);
    match ask(Ask::Adopt(shard, args.rate << 20)).map_err(explain)? {
        Told::Adopting => {}
        Told::Failed(why) => return Err(Failure::plain(why)),
        _ => return Err(odd(&args.to)),
    }
    let every = Duration::from_millis(args.tell_every);
    let mut meter = Meter::new(&format!("shard {shard}"), Unit::Bytes, every);
    // The bar is drawn on a terminal only.
    let bar = ProgressBar::new_spinner();
    loop {
        let Told::Moves(moves) = ask(Ask::Moves).map_err(explain)? else {
            return Err(odd(&args.to));
        };
        let Some(moving) = moves.into_iter().find(|moving| moving.shard == shard) else {
            return Err(Failure::plain(format!(
                "the server at {} was restarted, and has no move of shard {shard}: run this again",
                args.to
            )));
        };
        match &moving.stage {
            MoveStage::Done => {
                bar.finish_and_clear();
                meter.finish(moving.copied);
                done(args, &moving);
                return Ok(ExitCode::SUCCESS);
            }
            MoveStage::Failed(why) => {
                bar.finish_and_clear();
                return Err(Failure::plain(format!("shard {shard} was not moved: {why}")));
            }
            stage => {
                show(&bar, &moving);
                let total = moving.total.max(moving.copied);
                meter.tell(stage.name(), moving.copied, total);
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn odd(address: &Address) -> Failure {
    Failure::unexpected(format_args!("the server at {address}"))
}

fn done(args: &ShardMoveArgs, moving: &Moving) {
    if args.json {
        output::json(&serde_json::json!({
            "shard": args.shard,
            "served_at": args.to.to_string(),
            "copied_bytes": moving.copied,
        }));
    } else {
        output::line(&format!("shard {} is served at {}", args.shard, args.to));
    }
}

fn show(bar: &ProgressBar, moving: &Moving) {
    bar.set_message(format!(
        "shard {}: {}, {} of about {}",
        moving.shard,
        moving.stage.name(),
        bytes(moving.copied),
        bytes(moving.total.max(moving.copied))
    ));
    bar.tick();
}
