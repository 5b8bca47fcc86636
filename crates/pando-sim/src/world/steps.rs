//! Takes one event after another.

use pando_client::TransportError;
use pando_server::host::driven::{Driven, SyncFor};
use pando_types::op::{ATTEND_FOR, Op};
use pando_wire::Message;

use crate::base::time::MILLISECOND;
use crate::network::end::End;
use crate::network::mail::Wish;
use crate::world::state::event::SimEvent;
use crate::world::state::world::{ToClient, World};

/// How long a client waits for a reply, nanoseconds.
const TIMEOUT: u64 = 25 * MILLISECOND;

impl World {
    /// Lets the clients run, then takes the next event. Returns what happens to a client: the
    /// caller carries that out.
    pub fn step(&mut self) -> Option<ToClient> {
        self.set_clocks_here();
        self.executor.run();
        self.settle_here();
        for wish in self.mail.wishes() {
            self.grant(wish);
        }
        let ((time, _), event) = self.queue.pop_first()?;
        self.time = time;
        self.mail.tick(time);
        let to_client = self.handle(event);
        self.heed_ended_sessions();
        to_client
    }

    fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::LosePower => self.lose_power(),
            Wish::Sleep(ticket, nanos) => self.after(nanos, SimEvent::Wake(ticket)),
            Wish::Call(client, ticket, shard, request) => {
                let (from, to) = (End::Client(client), End::Shard(shard.0.into()));
                self.calls.insert(ticket, (client, shard.0.into()));
                let waits = if matches!(request.op, Op::Attend { .. }) { ATTEND_FOR } else { 0 };
                self.after(TIMEOUT + waits, SimEvent::TimeOut(ticket));
                self.put(from, to, ticket, &Message::Request(*request));
            }
        }
    }

    /// Whether processes die, and hash slots are handed over.
    fn is_busy(&self) -> bool {
        self.is_faulty && self.time < self.config.busy_until
    }

    fn handle(&mut self, event: SimEvent) -> Option<ToClient> {
        match event {
            SimEvent::Deliver(way) => self.deliver(way),
            SimEvent::Linger(number) => {
                if let Some((way, messages)) = self.network.linger(number) {
                    for (stream, message) in messages {
                        self.receive(way, stream, message);
                    }
                }
            }
            SimEvent::Break(way) if self.is_connected(way) => self.break_off(way.from, way.to),
            SimEvent::TimeOut(ticket) | SimEvent::Wake(ticket) => {
                self.calls.remove(&ticket);
                self.mail.answer(ticket, Err(TransportError::Lost));
            }
            SimEvent::Turn(shard, life) if self.is_alive(self.server_of(shard), life) => {
                self.turn(shard);
            }
            SimEvent::Timer(server, life) if self.is_alive(server, life) => {
                self.servers[server].timer_planned = None;
                self.act(server, Driven::fire_due);
            }
            SimEvent::Sync(shard, life) if self.is_alive(self.server_of(shard), life) => {
                self.hosts[shard].is_sync_planned = false;
                self.sync(shard, SyncFor::Request);
            }
            SimEvent::BackgroundSync(shard) => self.background_sync(shard),
            SimEvent::Checkpoint(shard) => self.want_checkpoint(shard),
            SimEvent::CheckpointStep(server, life) if self.is_alive(server, life) => {
                self.servers[server].is_checkpoint_planned = false;
                self.act(server, Driven::step_checkpoint);
            }
            SimEvent::ArmCrash(shard) if self.is_busy() => self.arm_crash(shard),
            SimEvent::Crash(server, life) if self.is_alive(server, life) && self.is_busy() => {
                self.crash(server);
            }
            SimEvent::Restart(server) => self.restart(server),
            SimEvent::HandOver if self.is_busy() => {
                self.hand_over();
                let delay = self.random.between(1, 2 * self.config.handover_interval);
                self.after(delay, SimEvent::HandOver);
            }
            SimEvent::Cut if self.is_faulty => {
                self.cut();
                self.after(self.config.cut_interval, SimEvent::Cut);
            }
            SimEvent::SetClock if self.is_faulty => self.set_clock(),
            SimEvent::ClientDies if self.is_faulty => return Some(ToClient::Dies),
            SimEvent::ClientPauses if self.is_faulty => return Some(ToClient::Pauses),
            SimEvent::ClientIsAway if self.is_faulty => return Some(ToClient::IsAway),
            SimEvent::DiskFails(shard) if self.is_faulty => self.disk_fails(shard),
            SimEvent::DiskMends(shard, nth) => self.disk_mends(shard, Some(nth)),
            SimEvent::Replace(server, life) if self.is_alive(server, life) => {
                self.replace(server);
            }
            SimEvent::Move if self.is_faulty => self.want_move(),
            SimEvent::MoveGoesOn(server, shard, number) => {
                self.move_goes_on(server, shard, number);
            }
            SimEvent::MoveSilent(server, shard, number) => {
                self.move_is_silent(server, shard, number);
            }
            SimEvent::LookWhetherClear(server, life, shard) if self.is_alive(server, life) => {
                self.clear(server, shard);
            }
            SimEvent::Greet(server, life, other) if self.is_alive(server, life) => {
                self.greet(server, other);
            }
            SimEvent::SessionEnds if self.is_faulty => return Some(ToClient::SessionEnds),
            SimEvent::ClientResumes(who) => return Some(ToClient::Resumes(who)),
            _ => {}
        }
        None
    }
}
