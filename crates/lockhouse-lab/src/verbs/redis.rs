//! `lockhouse-lab redis`: plays the scenes of locks on Redis.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use lockhouse_lab::redis::{Part, Scene, Subject, Verdict, try_out};
use serde_json::json;
use tokio::signal::unix::SignalKind;

use super::output::{FAILED, Failure, Format, INTERRUPTED, UNAVAILABLE, USAGE, columns, write_out};
use super::signals::Signals;

/// See how the locks that articles show on Redis break
///
/// The lab starts Redis servers on loopback, on free ports, and kills them when it ends. On them it plays the scenes that
/// break these locks: a client that dies, a late holder, a fast clock, a server that restarts without its data. It stops a
/// client at the weak point of its lock, so that a rare race shows at once. Each client records the answers that it gets, and
/// a checker decides which promises were broken. Lockhouse goes through all scenes on one Redis server.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0, or 1 if Lockhouse broke a promise; 64 usage, 69 a Redis server or the C compiler does not start.

The scene jumped-clock needs the C compiler cc: the lab compiles a library that sets the clock of a server.

Examples:
  lockhouse-lab redis
  lockhouse-lab redis --lock redlock
  lockhouse-lab redis --scene late-release
  lockhouse-lab redis --lock lockhouse --scene lost-node --scene jumped-clock
  lockhouse-lab redis -o json | jq '.scenes[].broken[].shown'")]
pub(crate) struct Redis {
    /// Only this lock; may be given several times
    #[arg(long = "lock", value_name = "NAME", value_parser = locks())]
    locks: Vec<String>,
    /// Only this scene; may be given several times
    #[arg(long = "scene", value_name = "NAME", value_parser = scenes())]
    scenes: Vec<String>,
    /// The Redis server to start: a name on the path, or a file
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    server: String,
    /// How to print
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

fn locks() -> PossibleValuesParser {
    let locks = Subject::ALL.map(|lock| PossibleValue::new(lock.name()).help(lock.about()));
    PossibleValuesParser::new(locks)
}

fn scenes() -> PossibleValuesParser {
    let scenes = Scene::ALL.map(|scene| PossibleValue::new(scene.name()).help(scene.about()));
    PossibleValuesParser::new(scenes)
}

impl Redis {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        // Without this, servers would outlive the terminal.
        let mut signals = Signals::listen(&[SignalKind::hangup()])?;
        tokio::select! {
            // The future of the play is dropped here, which kills its servers.
            () = signals.next() => Ok(INTERRUPTED),
            played = self.play() => played,
        }
    }

    /// Plays all scenes of one lock at once, and one lock after the other.
    async fn play(&self) -> Result<u8, Failure> {
        let mut verdicts = Vec::new();
        for parts in self.chosen()? {
            let played = try_out(&self.server, &parts).await;
            let played = played.map_err(|error| Failure(UNAVAILABLE, error.to_string()))?;
            if self.output == Format::Table {
                write_out(&told(&played))?;
            }
            verdicts.extend(played);
        }
        write_out(&match self.output {
            Format::Table => table(&verdicts),
            Format::Json => json!({ "scenes": verdicts }).to_string(),
        })?;
        let lockhouse = Subject::Lockhouse.name();
        let mut own = verdicts.iter().filter(|verdict| verdict.lock == lockhouse);
        let is_broken = own.any(|verdict| !verdict.broken.is_empty());
        Ok(if is_broken { FAILED } else { 0 })
    }

    /// The chosen scenes of each chosen lock that goes through one of them.
    fn chosen(&self) -> Result<Vec<Vec<Part>>, Failure> {
        let locks = Subject::ALL.into_iter();
        let locks = locks.filter(|lock| wants(&self.locks, lock.name()));
        let chosen = locks.map(|lock| {
            let parts = lock.parts();
            let parts = parts.filter(|(_, expected)| wants(&self.scenes, expected.scene.name()));
            parts.collect()
        });
        let chosen: Vec<Vec<Part>> = chosen.filter(|parts: &Vec<_>| !parts.is_empty()).collect();
        if chosen.is_empty() {
            let text = "no chosen lock goes through a chosen scene; leave out --scene to play all scenes of the lock";
            return Err(Failure(USAGE, text.to_owned()));
        }
        Ok(chosen)
    }
}

fn wants(wanted: &[String], name: &str) -> bool {
    wanted.is_empty() || wanted.iter().any(|wanted| wanted == name)
}

/// The scenes of one lock, with their events.
fn told(played: &[Verdict]) -> String {
    let mut lines = Vec::new();
    if let Some(first) = played.first() {
        lines.push(format!("{}: {}", first.lock, first.about));
    }
    for verdict in played {
        lines.push(format!("\n  {}: {}", verdict.scene, verdict.scene_about));
        let happened = verdict.happened.iter();
        lines.extend(happened.map(|line| format!("    {line}")));
        lines.extend(broken(verdict).map(|broken| format!("    BROKEN {broken}")));
        lines.push(
            match (verdict.is_as_expected(), verdict.broken.is_empty()) {
                (true, true) => format!("    kept: {}", verdict.why),
                (true, false) => format!("    why: {}", verdict.why),
                (false, _) => "    this was not expected; play it again".to_owned(),
            },
        );
    }
    lines.push(String::new());
    lines.join("\n")
}

fn table(verdicts: &[Verdict]) -> String {
    let mut rows = vec![["LOCK", "SCENE", "WHAT BROKE"].map(str::to_owned)];
    rows.extend(verdicts.iter().map(|verdict| {
        let broken = match verdict.broken.is_empty() {
            true => "nothing".to_owned(),
            false => broken(verdict).collect::<Vec<_>>().join("; "),
        };
        [verdict.lock.to_owned(), verdict.scene.to_owned(), broken]
    }));
    columns(&rows)
}

fn broken(verdict: &Verdict) -> impl Iterator<Item = String> {
    let broken = verdict.broken.iter();
    broken.map(|broken| format!("{}: {}", broken.promise, broken.what))
}
