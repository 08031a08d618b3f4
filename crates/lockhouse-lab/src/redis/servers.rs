//! Redis servers on loopback, for one scene alone. They are killed, restarted and put under a wrong clock.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ::redis::{FromRedisValue, RedisResult};
use tempfile::TempDir;
use tokio::time::sleep;

use super::client::connect;
use crate::Failed;
use crate::clock::{self, Clock};

/// How long a server may take to answer after its start.
const READY: Duration = Duration::from_secs(20);

/// How long a server may take to see that its clock was set.
const SEES_CLOCK: Duration = Duration::from_secs(5);

/// How many ports are tried. Another process may take a port that was free before the server listens on it.
const PORTS: usize = 5;

/// Whether the data of servers survives a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// Each write is on disk before it is answered.
    OnDisk,
    /// The data is lost.
    InMemory,
}

/// Independent servers. They are killed when this is dropped.
pub(super) struct Servers {
    servers: Vec<Server>,
    _folder: TempDir,
}

struct Server {
    program: String,
    folder: PathBuf,
    port: u16,
    data: Data,
    clock: Option<Clock>,
    process: Option<Child>,
}

impl Servers {
    /// Starts `number` servers, each under a clock that can jump if `has_clocks`.
    ///
    /// # Errors
    /// When one does not start, or without a C compiler, which clocks need.
    pub(super) async fn start(
        program: &str,
        number: usize,
        data: Data,
        has_clocks: bool,
    ) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let library = has_clocks.then(|| clock::compile(folder.path(), ""));
        let library = library
            .transpose()
            .map_err(|error| format!("{error}, which the scene jumped-clock needs"))?;
        let mut servers = Vec::new();
        for nth in 0..number {
            let folder = folder.path().join(nth.to_string());
            servers.push(Server::start(program, folder, data, library.as_deref()).await?);
        }
        Ok(Self {
            servers,
            _folder: folder,
        })
    }

    /// The URLs of the servers.
    pub(super) fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }

    /// Kills the server of index `nth`, or the last one if there are fewer, and starts it again. Data in memory are lost.
    pub(super) async fn restart(&mut self, nth: usize) -> Result<(), Failed> {
        let last = self.servers.len() - 1;
        let server = &mut self.servers[nth.min(last)];
        server.kill();
        match server.run().await? {
            true => Ok(()),
            false => Err(server.last_words()),
        }
    }

    /// Sets the clock of the server of index `nth`, or of the last one if there are fewer, an hour ahead.
    pub(super) async fn jump_an_hour(&self, nth: usize) -> Result<(), Failed> {
        let server = &self.servers[nth.min(self.servers.len() - 1)];
        let clock = server.clock.as_ref();
        let clock = clock.ok_or("the server has no clock that can jump")?;
        let before = server.time_s().await?;
        clock.set(1)?;
        // Valkey looks at its clock once in a millisecond.
        let until = Instant::now() + SEES_CLOCK;
        while server.time_s().await?.abs_diff(before) < 3_600 {
            if Instant::now() > until {
                let program = &server.program;
                return Err(format!("{program} does not see that its clock was set").into());
            }
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

impl Server {
    async fn start(
        program: &str,
        folder: PathBuf,
        data: Data,
        library: Option<&Path>,
    ) -> Result<Self, Failed> {
        fs::create_dir(&folder)?;
        let clock = library.map(|library| Clock::new(library, folder.join("clock")));
        let mut server = Self {
            program: program.to_owned(),
            folder,
            port: 0,
            data,
            clock: clock.transpose()?,
            process: None,
        };
        for _ in 0..PORTS {
            server.port = free_port()?;
            if server.run().await? {
                return Ok(server);
            }
        }
        Err(server.last_words())
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Starts the process. Returns whether it takes commands. If not, it has ended.
    async fn run(&mut self) -> Result<bool, Failed> {
        let program = &self.program;
        let started = self.command()?.spawn().map_err(|error| {
            format!(
                "cannot run {program}: {error}; install Redis, or name its server with --server"
            )
        });
        let pid = self.process.insert(started?).id();
        let until = Instant::now() + READY;
        while !self.is_ready(pid).await {
            if self.has_ended()? {
                return Ok(false);
            }
            if Instant::now() > until {
                let text = format!("{} does not answer on port {}", self.program, self.port);
                return Err(text.into());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(true)
    }

    fn command(&self) -> io::Result<Command> {
        let append = match self.data {
            Data::OnDisk => "yes",
            Data::InMemory => "no",
        };
        let log = File::create(self.log())?;
        let mut command = Command::new(&self.program);
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .args(["--save", "", "--appendonly", append])
            .args(["--appendfsync", "always", "--dir"])
            .arg(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C on a terminal reaches the lab alone, which then kills its servers.
            .process_group(0);
        if let Some(clock) = &self.clock {
            command.envs(clock.environment());
        }
        Ok(command)
    }

    /// Whether the process itself takes commands. Another server may have taken the port.
    async fn is_ready(&self, pid: u32) -> bool {
        let Ok(info) = self.ask::<String>("INFO").await else {
            return false;
        };
        let has = |expected: &str| info.lines().any(|line| line == expected);
        has(&format!("process_id:{pid}")) && has("loading:0")
    }

    fn has_ended(&mut self) -> Result<bool, Failed> {
        match &mut self.process {
            Some(process) => Ok(process.try_wait()?.is_some()),
            None => Ok(true),
        }
    }

    async fn time_s(&self) -> Result<u64, Failed> {
        let (seconds, _micros): (u64, u64) = self.ask("TIME").await?;
        Ok(seconds)
    }

    async fn ask<T: FromRedisValue>(&self, command: &str) -> RedisResult<T> {
        let mut connection = connect(&self.url()).await?;
        ::redis::cmd(command).query_async(&mut connection).await
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The reason of its end, from its log.
    fn last_words(&self) -> Failed {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let last = log.trim_end().lines().last().unwrap_or("it says nothing");
        format!("{} ended at its start: {last}", self.program).into()
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // A process that has ended cannot be killed.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.port())
}
