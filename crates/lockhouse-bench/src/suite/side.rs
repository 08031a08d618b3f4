//! One side of a contest: a contender, its database, and its load.

use tokio::sync::watch;

use super::places::{Place, Places};
use super::server::Server;
use crate::Failed;
use crate::contender::{Contender, Database, Kind, LockhouseContender, settings};
use crate::load;
use crate::measured::Measured;
use crate::progress::Progress;
use crate::shape::Shape;

/// A side of a contest, with the name by which rows find it.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) place: Place,
    pub(super) shape: Shape,
    pub(super) engines: usize,
    /// The number of server processes that clients call over HTTP; 0 if the engines are in this process.
    pub(super) servers: usize,
}

impl Side {
    pub(super) fn new(name: &'static str, kind: Kind, place: Place, shape: &Shape) -> Self {
        Self {
            name,
            kind,
            place,
            shape: shape.clone(),
            engines: 1,
            servers: 0,
        }
    }

    pub(super) fn engines(self, engines: usize) -> Self {
        Self { engines, ..self }
    }

    pub(super) fn servers(self, servers: usize) -> Self {
        Self { servers, ..self }
    }

    /// Whether what was made before is too much to make it again for every round.
    pub(super) fn is_kept(&self) -> bool {
        self.shape.held + self.shape.ended > 0
    }
}

/// A side that is ready to be put under load.
pub(super) struct Ready {
    contender: Box<dyn Contender>,
    database: Database,
    servers: Vec<Server>,
    shape: Shape,
}

impl Ready {
    pub(super) async fn make(side: &Side, places: &Places) -> Result<Self, Failed> {
        let url = places.url(side.place)?;
        let database = Database::at(&url).await?;
        let ready = match Self::open(side, database.url(), places).await {
            Ok((contender, servers)) => Self {
                contender,
                database,
                servers,
                shape: side.shape.clone(),
            },
            Err(error) => {
                database.clear().await?;
                return Err(error);
            }
        };
        match ready.contender.prepare(&side.shape).await {
            Ok(()) => Ok(ready),
            Err(error) => {
                ready.clear().await?;
                Err(error)
            }
        }
    }

    async fn open(
        side: &Side,
        url: &str,
        places: &Places,
    ) -> Result<(Box<dyn Contender>, Vec<Server>), Failed> {
        if side.servers == 0 {
            let contender = side.kind.open(&[url.to_owned()], side.engines).await?;
            return Ok((contender, Vec::new()));
        }
        let program = places.lockhouse()?;
        let mut servers = Vec::new();
        for _ in 0..side.servers {
            servers.push(Server::start(program, url, &[]).await?);
        }
        let urls: Vec<_> = servers
            .iter()
            .map(|server| server.url().to_owned())
            .collect();
        let known = settings::of(url).await?;
        let contender = LockhouseContender::connect(&urls, 1).await?;
        Ok((Box::new(contender.on(known)), servers))
    }

    /// One round; `stop` ends it early.
    pub(super) async fn round(
        &self,
        progress: &dyn Progress,
        stop: &watch::Receiver<bool>,
    ) -> Result<Measured, Failed> {
        let mut stop = stop.clone();
        let stopped = async move { stop.wait_for(|stop| *stop).await.map(|_| ()) };
        load::run(&*self.contender, &self.shape, progress, stopped).await
    }

    pub(super) async fn clear(self) -> Result<(), Failed> {
        // A database that goes takes all with it.
        let cleared = match self.database.is_new() {
            true => Ok(()),
            false => self.contender.clear().await,
        };
        drop(self.contender);
        for server in self.servers {
            server.stop().await?;
        }
        self.database.clear().await?;
        cleared
    }
}
