//! One side of a contest: who, where, under what load.

use tokio::sync::watch;

use super::Places;
use super::server::Server;
use crate::Failed;
use crate::contender::{Contender, Database, Kind, LockhouseContender, settings};
use crate::load;
use crate::measured::Measured;
use crate::progress::Progress;
use crate::shape::Shape;

/// Which database, by what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Place {
    MySql,
    MariaDb,
    Postgres,
    Sqlite,
    Redis,
    Etcd,
}

/// Who contends with whom, under a name that rows find it by.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) place: Place,
    pub(super) shape: Shape,
    pub(super) engines: usize,
    /// Over HTTP, through a server process.
    pub(super) served: bool,
}

impl Side {
    pub(super) fn new(name: &'static str, kind: Kind, place: Place, shape: &Shape) -> Self {
        Self {
            name,
            kind,
            place,
            shape: shape.clone(),
            engines: 1,
            served: false,
        }
    }

    pub(super) fn engines(self, engines: usize) -> Self {
        Self { engines, ..self }
    }

    pub(super) fn served(self) -> Self {
        Self {
            served: true,
            ..self
        }
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
    server: Option<Server>,
    shape: Shape,
}

impl Ready {
    pub(super) async fn make(side: &Side, places: &Places) -> Result<Self, Failed> {
        let url = places.url(side.place)?;
        let program = match side.served {
            true => Some(places.lockhouse()?),
            false => None,
        };
        let database = Database::at(url).await?;
        let mut ready = match Self::open(side, database.url(), program).await {
            Ok((contender, server)) => Self {
                contender,
                database,
                server,
                shape: side.shape.clone(),
            },
            Err(error) => {
                database.clear().await?;
                return Err(error);
            }
        };
        ready.shape = side.shape.clone();
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
        program: Option<&std::path::Path>,
    ) -> Result<(Box<dyn Contender>, Option<Server>), Failed> {
        let Some(program) = program else {
            let contender = side.kind.open(&[url.to_owned()], side.engines).await?;
            return Ok((contender, None));
        };
        let server = Server::start(program, url, &[]).await?;
        let urls = [server.url().to_owned()];
        let known = settings::of(url).await?;
        let contender = LockhouseContender::connect(&urls, side.engines).await?;
        Ok((Box::new(contender.on(known)), Some(server)))
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
        if let Some(server) = self.server {
            server.stop().await?;
        }
        self.database.clear().await?;
        cleared
    }
}
