//! Ends a segment, begins the next one, and checks the one that ended.

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse::Upkeep;
use tokio::time::{sleep, timeout};

use super::{Judging, Run};
use crate::history::{Answer, Call, Circumstances, Operation, Recorded, slow_commits};
use crate::rows;
use crate::torture::audit::Auditor;
use crate::torture::crew::{Client, Crew};
use crate::torture::life::UNUSED;
use crate::torture::notes::{self, Notes};
use crate::torture::part::upkeep;
use crate::torture::segment::{
    OURS, PLAIN, SLOTTED, STALE_AFTER, Segment, TEMPLATE, TIMED, semaphores,
};
use crate::torture::verdict::{self, Troubles};

/// How long clients may take to finish a segment.
const END: Duration = Duration::from_secs(75);

/// How long a purge may take.
const PURGE: Duration = Duration::from_secs(10);

impl Run<'_> {
    /// Ends the requests that a dead client may hold on two kinds of semaphores: those whose requests have no TTL, so that other
    /// clients can go on, and those whose refusals are checked, as a request that may be held counts as held there.
    pub(super) async fn bury(&mut self, client: u32) {
        let path = self.segment.notes(&self.size.folder, client);
        if !path.exists() {
            return;
        }
        let names = PLAIN.into_iter().chain([TIMED]);
        let names: Vec<_> = names.map(|(name, _)| self.segment.name(name)).collect();
        let is_to_end = |operation: &&Operation| match &operation.call {
            Call::Acquire(asked) => asked.permits.iter().any(|(name, _)| names.contains(name)),
            _ => false,
        };
        let history = notes::read(&path);
        let over: HashSet<_> = history
            .iter()
            .filter(|operation| matches!(operation.call, Call::Release { .. }))
            .filter(|operation| operation.answer != Answer::Unknown)
            .filter_map(Operation::id)
            .collect();
        let Some(ours) = self.ours() else { return };
        for operation in history.iter().filter(is_to_end) {
            let id = operation.id().unwrap();
            let refused = matches!(operation.answer, Answer::Refused(_));
            if !over.contains(id) && !refused {
                ours.force(id).await;
            }
        }
    }

    pub(super) fn ours(&self) -> Option<Recorded> {
        let notes = self.notes.as_ref()?;
        Some(Recorded::new(self.direct.clone(), notes, OURS))
    }

    pub(super) async fn begin_segment(&mut self, segment: Segment) {
        self.segment = segment;
        if segment.0 == 0 {
            self.notes = None;
            return;
        }
        fs::create_dir_all(segment.folder(&self.size.folder)).unwrap();
        let path = segment.notes(&self.size.folder, OURS);
        self.notes = Some(Arc::new(Notes::create(&path)));
        if let Some(ours) = self.ours() {
            for (name, capacity) in semaphores(self.size.tasks) {
                ours.define(&segment.name(name), capacity).await;
            }
            let (slotted, capacity) = SLOTTED;
            ours.define_with_slots(&segment.name(slotted), capacity)
                .await;
            let (pattern, capacity) = TEMPLATE;
            ours.template(&segment.name(pattern), capacity, UNUSED)
                .await;
        }
    }

    /// Ends a segment, and begins the next.
    pub(super) async fn turn(&mut self, next: Segment) {
        let last = self.segment;
        let answered = self
            .crew
            .clients
            .iter()
            .map(|client| client.says().answered);
        self.answered += answered.sum::<u64>();
        let begun = Instant::now();
        self.begin_segment(next).await;
        self.auditor = Auditor::default();
        for client in &mut self.crew.clients {
            client.process.tell(&format!("segment {}", next.0));
        }
        let is_over = |crew: &Crew| {
            let mut clients = crew.clients.iter().map(Client::says);
            clients.all(|says| says.is_over_with(last.0))
        };
        while !is_over(&self.crew) {
            if begun.elapsed() > END {
                let what = format!("clients are not done with segment {} after {END:?}", last.0);
                self.broke(what);
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        self.take_verdict().await;
        self.judge(last).await;
        self.end_purge().await;
        if next.0 != 0 {
            self.begin_purge(begun);
        }
    }

    /// Begins to delete the requests that ended before the running segment began, at `begun`. The rows of all segments before it
    /// have been read. A purge that took longer than [`PURGE`] would also delete requests of the running segment.
    fn begin_purge(&mut self, begun: Instant) {
        let upkeep = Upkeep {
            purge_after: begun.elapsed() + PURGE,
            purge_pause: Duration::from_millis(5),
            ..upkeep()
        };
        let lockhouse = self.direct.clone();
        let purging = async move {
            loop {
                match lockhouse.sweep(&upkeep).await {
                    Ok(swept) => return swept.purged,
                    // A purge fails during a fault.
                    Err(_) => sleep(Duration::from_millis(100)).await,
                }
            }
        };
        let purging = timeout(PURGE, purging);
        self.purging = Some(tokio::spawn(async { purging.await.unwrap_or(0) }));
    }

    /// Waits until the purge has ended.
    pub(super) async fn end_purge(&mut self) {
        if let Some(purging) = self.purging.take() {
            self.report.purged += purging.await.unwrap();
        }
    }

    async fn judge(&mut self, segment: Segment) {
        let (rows, unlike) = match self.crew.cluster() {
            Some(cluster) => cluster.rows(&segment.prefix()).await,
            None => {
                let rows = rows::read_of(&self.crew.admin_url(), &segment.prefix()).await;
                (rows, Vec::new())
            }
        };
        let folder = self.size.folder.clone();
        let mut circumstances = Circumstances {
            moved: self.moved(),
            stale_after: STALE_AFTER,
            away: self.stage.away.clone(),
        };
        let troubles = Troubles {
            lost: self.stage.troubled.clone(),
            begun: std::mem::take(&mut self.stage.begun),
        };
        let is_broken = std::mem::take(&mut self.is_segment_broken);
        // SQLite's lock is not fair, and a process may wait for it for seconds.
        let is_unfair = self.crew.is_on_a_file();
        let verdict = tokio::task::spawn_blocking(move || {
            let history = verdict::history(&folder, segment);
            if is_unfair {
                circumstances.away.extend(slow_commits(&history));
            }
            let mut verdict = verdict::judge(segment, &history, &rows, (&circumstances, &troubles));
            verdict.violations.extend(unlike);
            if is_broken || !verdict.violations.is_empty() {
                verdict::keep(&folder, segment, &verdict, (&rows, &circumstances.moved));
            }
            verdict
        });
        self.judging = Some(Judging {
            segment,
            is_broken,
            verdict,
        });
    }

    /// Takes the verdict on the segment before the last. The notes of a broken segment are kept.
    pub(super) async fn take_verdict(&mut self) {
        let Some(judging) = self.judging.take() else {
            return;
        };
        let segment = judging.segment;
        let verdict = judging.verdict.await.unwrap();
        let violations = verdict.violations.join("\n\n");
        let operations: u64 = verdict.operations.values().sum();
        self.report.add(verdict);
        let folder = segment.folder(&self.size.folder);
        if violations.is_empty() && !judging.is_broken {
            fs::remove_dir_all(folder).unwrap();
            self.say(&format!(
                "segment {} of {operations} operations breaks nothing",
                segment.0
            ));
        } else {
            self.say(&format!(
                "segment {} is broken; see {folder:?}\n\n{violations}\n",
                segment.0
            ));
        }
    }
}
